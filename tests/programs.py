"""Builds the tests' C programs, against the library in target/release."""

import subprocess
from pathlib import Path

from build import LIBRARY, ROOT, SONAME, mpi

SOURCES = Path(__file__).resolve().parent / "c"
BUILT = ROOT / "target" / "tests"


def build_c(sources, name, *flags):
    """The path of the program `name`, compiled from `sources` in tests/c; a warning is an error."""
    BUILT.mkdir(parents=True, exist_ok=True)
    link = LIBRARY.with_name(SONAME)
    if not link.exists():
        link.symlink_to(LIBRARY.name)
    program = BUILT / name
    subprocess.run(
        [
            mpi("mpicc"), "-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags,
            f"-I{ROOT / 'capi' / 'include'}", f"-I{ROOT / 'capi' / 'mpi'}",
            *(str(SOURCES / source) for source in sources),
            "-o", str(program),
            f"-L{LIBRARY.parent}", f"-Wl,-rpath,{LIBRARY.parent}", "-lmainstay",
        ],
        check=True,
        timeout=120,
    )  # fmt: skip
    return program
