"""Builds the tests' C programs, against the library in target/release."""

from pathlib import Path

import library
from mpi import OPENMPI, ROOT

SOURCES = Path(__file__).resolve().parent / "c"
BUILT = ROOT / "target" / "tests"


def build_c(sources, name, *flags, mpi=OPENMPI):
    """The path of the program `name`, compiled for `mpi` from `sources` in tests/c; a warning is an error."""
    program = BUILT / mpi.name / name
    program.parent.mkdir(parents=True, exist_ok=True)
    library.build(program, [SOURCES / source for source in sources], "-O2", *flags, mpi=mpi)
    return program
