"""A user's program needs only `make install` and one line of mpicc."""

import os
import re
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import pytest
from jobs import DEATH, RANKS, STEPS, comes_back, run
from limits import LIMIT_S
from mpi import BUILT, OPENMPI, PROFILE, ROOT
from programs import FORTRAN_SOURCES, SOURCES, build_fortran
from relinked import configuration, linked, sum_of
from ways import rarely


@pytest.fixture(scope="module")
def installed():
    """A folder with an installation of Mainstay, moved after the installation."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["make", "--no-print-directory", "install", f"DESTDIR={folder}", "PREFIX=/opt/first/place"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        yield (Path(folder) / "opt" / "first" / "place").rename(Path(folder) / "moved")


def flags(prefix, *options):
    """The output of `pkg-config OPTIONS mainstay`. Without pkg-config, the file is read here."""
    folder = prefix / "lib" / "pkgconfig"
    if tool := shutil.which("pkg-config") or shutil.which("pkgconf"):
        environment = dict(os.environ, PKG_CONFIG_PATH=str(folder))
        return subprocess.check_output([tool, *options, "mainstay"], env=environment, text=True).split()
    warnings.warn("pkg-config is missing here: the test reads mainstay.pc itself", stacklevel=2)
    text = (folder / "mainstay.pc").read_text()
    values = {"pcfiledir": str(folder)} | dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    fields = dict(re.findall(r"^([\w.]+): (.*)$", text, re.MULTILINE))
    wanted = ["Cflags", "Libs", *(["Libs.private"] if "--static" in options else [])]
    text = "${fortran}" if "--variable=fortran" in options else " ".join(fields[name] for name in wanted)
    while "${" in text:
        text = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], text)
    return text.split()


def compile_it(command):
    """Runs a compiler; any output is an error."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_readmes_program_runs_as_the_readme_says(installed, scratch, monkeypatch):
    source = ROOT / "examples" / "minimal" / "minimal.c"
    program = scratch / "app"
    compile_it([OPENMPI.command("mpicc"), source, *flags(installed, "--cflags", "--libs"), "-o", program])
    monkeypatch.chdir(scratch)
    first, second = (run(RANKS, [program], scratch) for _ in range(2))
    assert first[0] == second[0] == 0 and "restored" not in first[1], (first, second)
    again = [line for line in second[1].splitlines() if line != "restored revision 10 at step 1000"]
    assert len(second[1].splitlines()) == len(again) + RANKS and again == first[1].splitlines(), (first, second)
    subprocess.run([installed / "bin" / "mainstay", "ls", "space"], check=True, timeout=LIMIT_S)


def test_a_program_that_knows_nothing_of_mainstay_runs_with_an_installation(installed, scratch):
    command, program = installed / "bin" / "mainstay", scratch / "slots"
    compile_it([command, "mpicc", SOURCES / "slots.c", "-o", program])
    words = [*OPENMPI.mpiexec(2, [program, 10, 5, program])]
    environment = {**OPENMPI.environment(scratch), "XDG_CACHE_HOME": str(scratch / "cache")}
    done = subprocess.run(
        [command, "run", "--virtual", "3", "--space", "space", "--", *words],
        cwd=scratch, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("of 3 ranks\n"), done


def test_a_program_of_another_library_is_relinked_with_an_installation(installed, scratch):
    words = [installed / "bin" / "mainstay", "stand-in", "veloc", scratch / "veloc"]
    environment = {**os.environ, "MPICC": OPENMPI.command("mpicc")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    program = linked("veloc", "veloc", scratch / "veloc", scratch / "heat")
    words = [program, configuration(scratch), STEPS, "mem"]
    assert run(RANKS, [*words, DEATH], scratch)[0] != 0
    status, output = run(RANKS, words, scratch)
    assert status == 0 and re.match("from step [34]0\n", output) and sum_of(output), output
    libraries = subprocess.check_output(["ldd", scratch / "veloc" / "lib" / "libveloc-client.so"], text=True)
    assert str(installed / "lib" / "libmainstay") in libraries, libraries


def test_nothing_that_is_installed_knows_where_it_was_first(installed):
    files = [path for path in installed.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if b"/opt/first" in path.read_bytes()]


def test_what_only_a_debugger_needs_is_not_installed(installed):
    """290 MB were installed; with the profile of releases it is less than 30 MB. That of tests has less to remove."""
    for file in "lib/libmainstay.a", "lib/libmainstay.so", "bin/mainstay":
        sections = subprocess.check_output(["readelf", "-SW", installed / file], text=True, timeout=LIMIT_S)
        assert ".text" in sections and not re.search(r"\.debug_(info|line|str)", sections), file
        assert (installed / file).stat().st_size < (BUILT / Path(file).name).stat().st_size / 2, file


@pytest.mark.campaign
def test_a_program_in_fortran_builds_and_comes_back(installed, mpi, scratch):
    (module,) = flags(installed, "--variable=fortran")
    headers, link = flags(installed, "--cflags"), flags(installed, "--libs")
    places = {"module": Path(module), "headers": headers, "link": link}
    comes_back(build_fortran(FORTRAN_SOURCES / "adopt.f90", "adopt-fortran", mpi, **places), scratch, mpi)


def test_a_program_builds_with_one_line_and_comes_back(installed, scratch):
    program = scratch / "adopt"
    compile_it([OPENMPI.command("mpicc"), SOURCES / "adopt.c", *flags(installed, "--cflags", "--libs"), "-o", program])
    comes_back(program, scratch)


@pytest.mark.campaign
def test_the_command_tells_how_to_compile(installed, scratch):
    command = installed / "bin" / "mainstay"
    told = subprocess.check_output([command, "config", "--cflags", "--libs"], text=True, timeout=LIMIT_S).split()
    # pkg-config paths begin at the folder of its file.
    assert told == [word.replace("/lib/pkgconfig/../..", "") for word in flags(installed, "--cflags", "--libs")]
    program = scratch / "adopt"
    compile_it([OPENMPI.command("mpicc"), SOURCES / "adopt.c", *told, "-o", program])
    status, output = run(RANKS, [program, scratch / "space", STEPS], scratch)
    assert status == 0 and "sum" in output, output


def test_completions_and_manual_pages_are_where_shells_and_man_look(installed):
    share = installed / "share"
    command = installed / "bin" / "mainstay"
    places = {
        "bash": "bash-completion/completions/mainstay",
        "zsh": "zsh/site-functions/_mainstay",
        "fish": "fish/vendor_completions.d/mainstay.fish",
    }
    for shell, place in places.items():
        script = subprocess.check_output([command, "completions", shell], text=True, timeout=LIMIT_S)
        assert (share / place).read_text() == script
    page = subprocess.check_output([command, "man"], text=True, timeout=LIMIT_S)
    assert (share / "man" / "man1" / "mainstay.1").read_text() == page
    assert (share / "man" / "man1" / "mainstay-run.1").exists()


def test_the_program_links_to_the_installed_library_by_its_soname(installed, scratch):
    program = scratch / "adopt"
    compile_it([OPENMPI.command("mpicc"), SOURCES / "adopt.c", *flags(installed, "--cflags", "--libs"), "-o", program])
    found = subprocess.check_output(["ldd", program], text=True)
    path = Path(re.search(r"libmainstay\.so\.0 => (\S+)", found)[1])
    assert path.is_relative_to(installed) and path.samefile(installed / "lib" / "libmainstay.so.0"), found


@pytest.mark.campaign
def test_static_link(installed, scratch):
    options = flags(installed, "--static", "--cflags", "--libs")
    # Only Mainstay is linked from its archive; all other libraries are linked as usual.
    options = ["-l:libmainstay.a" if option == "-lmainstay" else option for option in options]
    program = scratch / "adopt"
    compile_it([OPENMPI.command("mpicc"), SOURCES / "adopt.c", *options, "-o", program])
    assert "libmainstay" not in subprocess.check_output(["ldd", program], text=True)
    status, output = run(RANKS, [program, scratch / "space", STEPS], scratch)
    assert status == 0 and "sum" in output, output


@pytest.mark.campaign
def test_cxx(installed, scratch):
    program = scratch / "adopt"
    strict = ["-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    compile_it([OPENMPI.command("mpicxx"), *strict, SOURCES / "adopt.c", "-x", "none",
                *flags(installed, "--cflags", "--libs"), "-o", program])  # fmt: skip
    status, output = run(RANKS, [program, scratch / "space", STEPS], scratch)
    assert status == 0 and "sum" in output, output


PLAIN = ["c99", "c11", "c17", "c++11", "c++17"]
HEADERS = {"mainstay.h": PLAIN, "mainstay_mpi.h": PLAIN, "mainstay_pfs.h": PLAIN,
           "mainstay_objects.h": PLAIN, "mainstay_objects_mpi.h": PLAIN,
           "mainstay_objects.hpp": ["c++17", "c++20"], "mainstay_objects_mpi.hpp": ["c++17", "c++20"],
           "mainstay.hpp": ["c++17", "c++20"], "mainstay_mpi.hpp": ["c++17", "c++20"]}  # fmt: skip


@pytest.mark.parametrize(
    ("header", "standard"),
    [
        each
        for name, (first, *others) in HEADERS.items()
        for each in ((name, first), *rarely(*((name, other) for other in others)))
    ],
)
def test_the_headers_are_plain(installed, scratch, header, standard):
    plus = standard.startswith("c++")
    source = scratch / ("header.cpp" if plus else "header.c")
    source.write_text(f"#include <{header}>\nint main({'' if plus else 'void'}) {{ return MAINSTAY_OK; }}\n")
    compiler = OPENMPI.command("mpicxx" if plus else "mpicc")
    strict = [f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra", "-Werror"]
    compile_it([compiler, *strict, f"-I{installed / 'include'}", "-c", source, "-o", scratch / "header.o"])


def test_the_library_knows_no_mpi(installed):
    symbols = subprocess.check_output(["nm", "-D", installed / "lib" / "libmainstay.so"], text=True)
    names = [line.split()[-1] for line in symbols.splitlines()]
    assert "mainstay_open" in names, "nm shows nothing of the library"
    assert not [name for name in names if re.match(r"P?MPIX?_", name)]
    exported = [line.split()[-1] for line in symbols.splitlines() if line.split()[-2] in "TDBR"]
    assert not [name for name in exported if not name.startswith("mainstay_")], "more than the API is exported"


def test_the_private_libraries_are_those_that_rust_needs(installed):
    command = ["cargo", "rustc", "-p", "mainstay-capi", f"--profile={PROFILE}", "--locked", "--crate-type", "staticlib",
               "--", "--print", "native-static-libs"]  # fmt: skip
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert told.returncode == 0, told.stderr
    needed = re.search(r"native-static-libs: (.*)", told.stderr)[1].split()
    static = flags(installed, "--static", "--libs")
    assert not set(needed) - set(static), f"mainstay.pc names too few libraries in Libs.private: {needed}"
