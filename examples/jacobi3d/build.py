"""Builds jacobi3d with the mpicc of .venv, against the library in target/release.

    python build.py FILE

With Mainstay installed, this is: mpicc -std=c11 -O3 *.c $(pkg-config --cflags --libs mainstay) -lm
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))

import library  # noqa: E402
from mpi import OPENMPI  # noqa: E402


def build(program, mpi=OPENMPI):
    """Compiles the example to the file `program`; without warnings, or it is an error."""
    library.build(program, sorted(HERE.glob("*.c")), "-O3", "-ffp-contract=off", "-lm", mpi=mpi)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: build.py FILE")
    build(Path(sys.argv[1]))
