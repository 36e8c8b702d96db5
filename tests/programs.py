"""Builds the programs of the tests, against the library in target/release or an installed one."""

import os
import sys
from pathlib import Path

import library
from mpi import OPENMPI, ROOT

SOURCES = Path(__file__).resolve().parent / "c"
CXX_SOURCES = SOURCES.with_name("cxx")
PYTHON = SOURCES.with_name("python")
FORTRAN_SOURCES = SOURCES.with_name("fortran")
FORTRAN_MODULE = ROOT / "capi" / "fortran"
# Each worker of parallel tests has its own copies of programs that are compiled once for all.
BUILT = ROOT / "target" / "tests" / os.environ.get("PYTEST_XDIST_WORKER", "")


def place(mpi, name):
    """The path of the built program `name` for `mpi`."""
    program = BUILT / mpi.name / name
    program.parent.mkdir(parents=True, exist_ok=True)
    return program


def build_c(sources, name, *flags, mpi=OPENMPI):
    """The path of the program `name`, compiled for `mpi` from `sources` in tests/c; a warning is an error."""
    program = place(mpi, name)
    library.build(program, [SOURCES / source for source in sources], "-O2", *flags, mpi=mpi)
    return program


def build_faults(name="faults", *flags, mpi=OPENMPI):
    """The program that makes the requested calls; see tests/c/faults.c."""
    return build_c(["faults.c", "faulty.c"], name, "-Wno-misleading-indentation", *flags, mpi=mpi)


def build_cxx(source, name, *flags, mpi=OPENMPI, standard="c++17"):
    """Builds a program from a file in tests/cxx."""
    program = place(mpi, name)
    library.build(program, [CXX_SOURCES / source], "-O1", *flags, mpi=mpi, compiler="mpicxx", standard=standard)
    return program


def build_python(source, name):
    """The path of the program `name`, which runs `source` in tests/python."""
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / name
    program.write_text(f"#!{sys.executable}\n" + (PYTHON / source).read_text())
    program.chmod(0o755)
    return program


def build_fortran(source, name, mpi, *flags, checked=(), module=FORTRAN_MODULE, headers=library.HEADERS, link=None):
    """Builds a program from a file in Fortran, with Mainstay's module from the folder `module`. All of it is compiled
    with the flags `checked`.

    gfortran compiles the Fortran, and mpicc compiles C and links: the wheels have no mpifort. The parts that `use mpi`
    needs are in tests/fortran.
    """
    program = place(mpi, name)
    objects = program.with_name(f"{name}-objects")
    mpicc = [mpi.command("mpicc"), "-std=c11", "-O2", *library.WARNINGS, *headers]
    fortran = ["gfortran", "-std=f2018", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", *checked]
    steps = [  # in the order in which the modules are used
        (mpicc, module / "mainstay_fortran.c"),
        (fortran, module / "mainstay.f90"),
        (fortran, module / "mainstay_reader.f90"),
        (mpicc, FORTRAN_SOURCES / "mpi.c"),
        (fortran, FORTRAN_SOURCES / "mpi.f90"),
        (fortran, FORTRAN_SOURCES / "checks.f90"),
        ([*fortran, *flags], source),
    ]
    outputs = [objects / f"{path.stem}-{path.suffix[1:]}.o" for _, path in steps]
    linked = [*(link or library.link_flags()), "-lgfortran", "-lm"]

    def make(made):
        objects.mkdir(exist_ok=True)
        for (compiler, path), output in zip(steps, outputs):
            modules = [] if compiler is mpicc else [f"-J{objects}"]
            library.run([*compiler, *modules, "-c", path, "-o", output])
        library.run([mpicc[0], *outputs, *linked, "-o", made])

    sources = [*module.glob("*.inc"), *(path for _, path in steps)]
    library.once(program, [*mpicc, *fortran, *flags, *linked], sources, make)
    return program
