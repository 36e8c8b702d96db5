"""Builds jacobi3d with the mpicc of this Python environment, against the library in target/release.

    python build.py FILE

With Mainstay installed, this is: mpicc -std=c11 -O3 *.c $(pkg-config --cflags --libs mainstay) -lm
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = ROOT / "target" / "release" / "libmainstay.so"
SONAME = "libmainstay.so.0"


def mpi(command):
    """The path of a command of Open MPI, which comes as a wheel."""
    return str(Path(sysconfig.get_path("scripts")) / command)


def build(program):
    """Compiles the example to the file `program`; without warnings, or it is an error."""
    if not LIBRARY.exists():
        raise SystemExit(f"{LIBRARY} is missing: run `make build` first")
    # The loader looks for the library under its soname, which cargo does not make a file of.
    link = LIBRARY.with_name(SONAME)
    if not link.exists():
        link.symlink_to(LIBRARY.name)
    subprocess.run(
        [
            mpi("mpicc"), "-std=c11", "-O3", "-ffp-contract=off",
            "-Wall", "-Wextra", "-Wpedantic", "-Werror",
            f"-I{ROOT / 'capi' / 'include'}", f"-I{ROOT / 'capi' / 'mpi'}",
            *map(str, sorted(HERE.glob("*.c"))),
            "-o", str(program),
            f"-L{LIBRARY.parent}", f"-Wl,-rpath,{LIBRARY.parent}", "-lmainstay", "-lm",
        ],
        check=True,
        timeout=300,
    )  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: build.py FILE")
    build(Path(sys.argv[1]))
