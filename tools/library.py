"""Programs in C and C++ that are compiled here, against the library in target/release."""

import subprocess

from mpi import OPENMPI, ROOT

LIBRARY = ROOT / "target" / "release" / "libmainstay.so"
SONAME = "libmainstay.so.0"
HEADERS = (f"-I{ROOT / 'capi' / 'include'}", f"-I{ROOT / 'capi' / 'mpi'}")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
LIMIT_S = 300


def link_flags():
    """What links a program to the library, and has it found there when the program starts."""
    if not LIBRARY.exists():
        raise SystemExit(f"{LIBRARY} is missing: run `make build` first")
    # The loader looks for the library under its soname, which cargo does not make a file of.
    link = LIBRARY.with_name(SONAME)
    if not link.exists():
        link.symlink_to(LIBRARY.name)
    return [f"-L{LIBRARY.parent}", f"-Wl,-rpath,{LIBRARY.parent}", "-lmainstay"]


def build(program, sources, *flags, mpi=OPENMPI, compiler="mpicc", standard="c11"):
    """Compiles files to the file `program` with a compiler of `mpi`; a warning is an error."""
    strict = [mpi.command(compiler), f"-std={standard}", *WARNINGS]
    command = [*strict, *HEADERS, *sources, "-o", program, *link_flags(), *flags]
    subprocess.run(list(map(str, command)), check=True, timeout=LIMIT_S)
