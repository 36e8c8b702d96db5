"""`mainstay run --files`: a new generation of a restart file is progress, and the options are those of `mainstay files`."""

import signal

import pytest
from command import MAINSTAY
from mpi import OPENMPI
from protected import HELPER, node_in, python
from supervised import Run

STEP = """
step = int(get('restart')) if os.path.exists('restart') else 0
if step == 4:
    sys.exit()
put('restart', str(step + 1))
"""
ENDS = {
    "program": "killed()",
    "front": "os.kill(os.getppid(), 9); killed()",
    "helper": "os.kill(helper(), 9); os.kill(os.getppid(), 9); killed()",
}


@pytest.fixture
def node(scratch):
    with node_in(scratch / "run") as node:
        yield node


def run(node, program, *options, code=0):
    return node.run([MAINSTAY, "run", *options, "--", *python(program)], code=code)


@pytest.mark.parametrize("end", ENDS)
def test_a_new_generation_is_progress(node, end):
    """Before, the second kill counted as the second failure at the same place."""
    done = run(node, HELPER + STEP + ENDS[end], "--restarts", "9", "--files", "restart*")
    assert node.text() == "4"
    for step in range(1, 5):
        assert f"going on from generation {step} of {node.folder}/restart\n" in done.stderr, done.stderr
    assert "anew" not in done.stderr and "saved nothing" not in done.stderr, done.stderr
    assert f"summary: generation 4 of {node.folder}/restart, written " in done.stderr, done.stderr


def test_files_in_a_folder_that_the_pattern_does_not_name_are_progress(node):
    (node.folder / "other").mkdir()
    program = "os.chdir('other')\n" + STEP + "killed()"
    done = run(node, program, "--restarts", "9", "--files", "restart*")
    assert node.text("other/restart") == "4"
    assert f"going on from generation 4 of {node.folder}/other/restart\n" in done.stderr, done.stderr


@pytest.mark.parametrize("pattern", ["restart*", "{}/other/restart*", "other/restart*"])
def test_files_of_another_machine_are_found_in_the_folders(node, scratch, pattern):
    """A process on another machine cannot report to `mainstay run`."""
    (node.folder / "other").mkdir()
    chdir = "" if pattern == "restart*" else "os.chdir('other')\n"
    job = OPENMPI.mpiexec(1, python(chdir + STEP + "killed()"))
    words = ["--restarts", "9", "--files", pattern.format(node.folder), "--", "env", "-u", "MAINSTAY_RUN_REPORT", *job]
    done = node.run([MAINSTAY, "run", *words], variables=OPENMPI.environment(scratch))
    assert f"going on from generation 4 of {node.folder}/{'other/' if chdir else ''}restart\n" in done.stderr, (
        done.stderr
    )


def test_one_line_counts_many_files(node):
    program = STEP + "put('restart.2', 'x'); put('restart.3', 'x')\nkilled()"
    done = run(node, program, "--restarts", "9", "--files", "restart*")
    assert f"going on from generation 1 of {node.folder}/restart.3, the newest of 3 files\n" in done.stderr, done.stderr


def test_a_job_that_is_killed_twice_with_the_same_files_is_given_up(node):
    node.files("put('restart', 'old')")
    done = run(node, "file = open('restart', 'w'); killed()", "--restarts", "9", "--files", "restart*", code=76)
    assert done.stderr.count(": start ") == 4, done.stderr
    place = f"no new complete revision or restart file in between, at generation 1 of {node.folder}/restart\n"
    assert f"going on from generation 1 of {node.folder}/restart\n" in done.stderr and place in done.stderr, done.stderr


def test_a_job_without_a_whole_file_begins_anew(node):
    done = run(node, "file = open('restart', 'w'); killed()", "--restarts", "9", "--files", "restart*", code=76)
    assert "no restart file is complete: the job begins anew\n" in done.stderr, done.stderr
    done = run(node, "pass", "--files", "restart*")
    assert "the job saved nothing: it closed no file that matches --files" in done.stderr, done.stderr


def test_a_job_that_is_cut_off_after_a_new_generation_asks_for_another_run(node):
    words = ["--files", "restart*", "--", *python("put('restart', 'x'); print('closed', flush=True); signal.pause()")]
    with Run(*words, cwd=node.folder, env=node.variables) as running:
        running.until("^closed$")
        running.process.send_signal(signal.SIGTERM)
        status, output = running.end()
    assert status == 75 and node.text() == "x", output


SHOWS = "print(*[name for name in ('LD_PRELOAD', 'MAINSTAY_FILES_CATCH') if name in os.environ])\n"
WRITES = "for text in 'abcde': put('restart', text)\nput('restart.tmp', ''); put('restart.0', 'x')\n"
OPTIONS = ("--exclude", "*.tmp", "--keep", "4", "--set", "{}.*", "--count", "2", "--catch", "kernel")
TABLE = """
keep = 2
[files]
match = "restart*"
exclude = ["*.tmp"]
keep = 4
set = ["{}.*"]
count = 2
catch = "kernel"
"""


@pytest.mark.parametrize("command", ["files", "run"])
@pytest.mark.parametrize("place", ["options", "table"])
def test_both_commands_take_the_same_options_from_the_line_or_the_file(node, command, place):
    match = {"files": "--match", "run": "--files"}[command]
    options = [match, "restart*", *OPTIONS] if place == "options" else []
    # The set is not whole. Otherwise `run` starts the program again.
    options += ["--restarts", "0"] if command == "run" else []
    if place == "table":
        (node.folder / "mainstay.toml").write_text(TABLE)
    done = node.run([MAINSTAY, command, *options, "--", *python(SHOWS + WRITES)], code=75)
    assert done.stdout == "MAINSTAY_FILES_CATCH\n", done
    assert node.kept() == {2: "b", 3: "c", 4: "d", 5: "e"} and node.kept("restart.tmp") == {}
    assert node.text("restart.tmp") == "" and node.text("restart.0") is None
    assert "restart.0: its set is not whole" in done.stderr, done


def test_the_command_line_comes_before_the_file(node):
    (node.folder / "mainstay.toml").write_text("[files]\nmatch = ['other']\nkeep = 1\n")
    program = "put('restart', 'a'); put('restart', 'b'); put('restart', 'c'); put('other', 'x')"
    run(node, program, "--files", "restart", "--keep", "2")
    assert node.kept() == {2: "b", 3: "c"} and node.kept("other") == {}
    run(node, program, "--files", "restart")
    assert node.kept() == {6: "c"}


@pytest.mark.parametrize("table, place", [
    ("[files]\nmatch = ['a']\nkep = 3", "kep in {}/mainstay.toml, line 3: [files] has no such setting; it takes"),
    ("[files]\nkeep = 'three'", "keep in {}/mainstay.toml, line 2: "), 
    ("[files]\nkeep = 0", "keep in {}/mainstay.toml, line 2: "),
    ("[files]\nmatch = [1.5]", "match in {}/mainstay.toml, line 2: it takes a text, a number, or a list of texts"),
    ("[file]\nkeep = 1", "file in {}/mainstay.toml, line 1: "),
])  # fmt: skip
@pytest.mark.parametrize("command", ["files", "run"])
def test_a_wrong_table_is_refused_with_its_line(node, table, place, command):
    (node.folder / "mainstay.toml").write_text(table)
    match = {"files": "--match", "run": "--files"}[command]
    done = node.run([MAINSTAY, command, match, "restart*", "--", "true"], code=2)
    assert place.format(node.folder) in done.stderr, done


def test_an_option_for_files_without_a_pattern_is_refused(node):
    done = run(node, "pass", "--keep", "3", code=2)
    assert "--files PATTERN" in done.stderr, done


def test_both_commands_show_the_same_options_in_their_help(node):
    pages = {}
    for command in ("files", "run"):
        page = node.mainstay(command, "--help")
        pages[command] = {word.strip(",") for word in page.split() if word.startswith("--")}
    options = {"--exclude", "--keep", "--set", "--count", "--damaged", "--fsync", "--catch", "--room", "--stage"}
    assert all(options <= page for page in pages.values()), pages
