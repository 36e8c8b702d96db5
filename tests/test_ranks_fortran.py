"""MPI for Fortran, for ranks in slots: it runs here with MPICH's own functions of C, and gives each function its names.

MPICH has the same ABI as the rank's MPI library. So these tests tell the functions for Fortran apart from that library.
"""

import os
import re
import subprocess
import sys

import pytest
from limits import LIMIT_S
from mpi import MPICH, ROOT
from programs import BUILT

sys.path.append(str(ROOT / "tools"))
import ranks_fortran
import ranks_fortran_c

PROGRAMS = ROOT / "tests" / "ranks" / "fortran"
FOLDER = ranks_fortran.FOLDER
LIBRARIES = MPICH.home / "lib"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
# Old programs pass buffers of several types to one function without an interface.
FORTRAN = ("gfortran", "-g", "-fPIE", "-w", "-fallow-argument-mismatch")


def run(*words, **more):
    words = [str(word) for word in words]
    return subprocess.run(words, check=False, timeout=LIMIT_S, capture_output=True, text=True, **more)


def compiled(*words, **more):
    done = run(*words, **more)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built():
    """The folder with the library of the functions for Fortran, and with the modules."""
    folder = BUILT / "ranks-fortran"
    folder.mkdir(parents=True, exist_ok=True)
    sources = [*FOLDER.glob("*.c"), *ranks_fortran.WRITTEN.glob("*.c"), PROGRAMS / "native.c"]
    link = (f"-L{LIBRARIES}", "-l:libmpi.so.12", f"-Wl,-rpath,{LIBRARIES}", "-Wl,--no-undefined")
    flags = ("-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-shared", "-Wl,-soname,libmpifort.so.12")
    compiled("gcc", *flags, *WARNINGS, *sources, *link, "-o", folder / "libmpifort.so.12")
    modules = [ranks_fortran.WRITTEN / name for name in ("mpi.f90", "mpi_f08.f90")]
    compiled("gfortran", *WARNINGS, "-c", *modules, cwd=folder)
    return folder


def program(built, source):
    """A program in Fortran. It needs no object file of the modules."""
    output = built / source.replace(".", "-")
    found = (f"-I{ranks_fortran.WRITTEN}", f"-I{built}", f"-J{built}")
    rpath = f"-Wl,-rpath,{built}:{LIBRARIES}"
    link = (f"-L{built}", "-l:libmpifort.so.12", f"-L{LIBRARIES}", "-l:libmpi.so.12", rpath)
    compiled(*FORTRAN, *found, PROGRAMS / source, *link, "-o", output)
    return output


@pytest.mark.parametrize("source", ["fixed.f", "free.f90", "module.f90", "module_f08.f90"])
def test_a_program_gets_the_results_of_mpi(built, scratch, source):
    command = program(built, source)
    for ranks in (1, 3):
        done = run(*MPICH.mpiexec(ranks, [command]), cwd=scratch, env=MPICH.environment(scratch))
        name = source.split(".")[0]
        assert done.returncode == 0 and done.stdout.strip() == f"{name}: done", done.stdout + done.stderr


def test_a_section_with_gaps_that_cannot_stay_is_refused(built, scratch):
    done = run(*MPICH.mpiexec(1, [program(built, "gaps_f08.f90")]), cwd=scratch, env=MPICH.environment(scratch))
    assert done.returncode != 0, done.stdout
    assert "MPI_Ireduce: the buffer is a section of an array with gaps." in done.stderr, done.stderr


def test_each_function_has_the_names_of_all_compilers(built):
    listed = run("nm", "-D", "--defined-only", built / "libmpifort.so.12").stdout
    names = set(re.findall(r" [TW] (\S+)$", listed, re.MULTILINE))
    table = ranks_fortran.read_table()
    missing = []
    for function in ranks_fortran.functions(table):
        name = f"mpi_{function.name.lower()}"
        needed = [f"{name}_", f"{name}__", f"p{name}_", f"p{name}__"]
        if ranks_fortran_c.has_section(table, function):
            needed.append(f"{name}_f08ts")
        elif ranks_fortran_c.in_f08(table, function):
            needed.append(f"{name}_f08_")
        missing += [one for one in needed if one not in names]
    assert not missing, missing


def test_the_modules_call_no_other_names(built):
    listed = run("nm", "-D", "--defined-only", built / "libmpifort.so.12").stdout
    names = set(re.findall(r" [TWBDV] (\S+)$", listed, re.MULTILINE))
    text = "".join((ranks_fortran.WRITTEN / name).read_text() for name in ("mpi.f90", "mpi_f08.f90"))
    bodies = re.findall(r"^    (?:pure elemental )?(?:subroutine|function) (\w+)\([^)]*\)([^\n]*)", text, re.MULTILINE)
    of_program = re.compile(r"MPI_\w+_function(_c)?")  # abstract interfaces
    wanted = {
        re.search(r'name="(\w+)"', rest)[1] if "bind(C" in rest else f"{name.lower()}_"
        for name, rest in bodies
        if not of_program.fullmatch(name) and "&" not in rest
    }
    assert len(wanted) > 500 and wanted <= names, sorted(wanted - names)


def test_the_included_file_is_valid_in_fixed_and_free_form():
    lines = (ranks_fortran.WRITTEN / "mpif.h").read_text().splitlines()
    assert all(line.startswith(("!", "      ")) and "&" not in line for line in lines)
    assert all(len(line) <= 72 for line in lines if not line.startswith("!"))


def test_the_generated_files_are_those_of_the_headers():
    checked = run(sys.executable, ROOT / "tools" / "ranks_fortran.py", "--check", env=dict(os.environ))
    assert checked.returncode == 0, checked.stderr
