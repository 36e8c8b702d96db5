"""Builds jacobi3d with the mpicc of .venv, against the library in target/release.

    python build.py FILE

With Mainstay installed, this is: mpicc -std=c11 -O3 *.c $(pkg-config --cflags --libs mainstay) -lm
The program made of objects shares all C files with it but jacobi3d.c, and has objects.cpp in its place.
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


def build_objects(program, mpi=OPENMPI):
    """The same, made of objects that move."""
    shared = program.with_name(f"{program.name}-shared")
    shared.mkdir(exist_ok=True)
    compiled = []
    for source in sorted(HERE.glob("*.c")):
        if source.name != "jacobi3d.c":
            compiled.append(shared / f"{source.stem}.o")
            library.build(compiled[-1], [source], "-c", "-O3", "-ffp-contract=off", mpi=mpi)
    sources = [HERE / "objects.cpp", *compiled]
    library.build(program, sources, "-O3", "-ffp-contract=off", "-lm", mpi=mpi, compiler="mpicxx", standard="c++17")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: build.py FILE")
    build(Path(sys.argv[1]))
