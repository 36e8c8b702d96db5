"""Builds the tests' programs: those that are compiled against the library in target/release."""

import sys
from pathlib import Path

import library
from mpi import OPENMPI, ROOT

SOURCES = Path(__file__).resolve().parent / "c"
PYTHON = SOURCES.with_name("python")
CXX_SOURCES = SOURCES.with_name("cxx")
BUILT = ROOT / "target" / "tests"


def build_c(sources, name, *flags, mpi=OPENMPI):
    """The path of the program `name`, compiled for `mpi` from `sources` in tests/c; a warning is an error."""
    program = BUILT / mpi.name / name
    program.parent.mkdir(parents=True, exist_ok=True)
    library.build(program, [SOURCES / source for source in sources], "-O2", *flags, mpi=mpi)
    return program


def build_python(source, name):
    """The path of the program `name`, which runs `source` in tests/python."""
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / name
    program.write_text(f"#!{sys.executable}\n" + (PYTHON / source).read_text())
    program.chmod(0o755)
    return program


def build_cxx(source, name, *flags, mpi=OPENMPI, standard="c++17"):
    """The same from a file in tests/cxx."""
    program = BUILT / mpi.name / name
    program.parent.mkdir(parents=True, exist_ok=True)
    library.build(program, [CXX_SOURCES / source], "-O1", *flags, mpi=mpi, compiler="mpicxx", standard=standard)
    return program
