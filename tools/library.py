"""Compiles programs in C and C++ against the built library."""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from mpi import BUILT, OPENMPI, ROOT

LIBRARY = BUILT / "libmainstay.so"
SONAME = "libmainstay.so.0"
INCLUDED = (ROOT / "capi" / "include", ROOT / "capi" / "mpi")
HEADERS = tuple(f"-I{folder}" for folder in INCLUDED)
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wformat-security", "-Werror")
COMPILED = ROOT / "target" / "tests" / "compiled"
LIMIT_S = 300


def link_flags():
    """Flags that link a program to the library, and let the program find it at its start."""
    if not LIBRARY.exists():
        raise SystemExit(f"{LIBRARY} is missing: run `make build` first")
    # The loader looks for the library under its soname; cargo makes no file of this name.
    link = LIBRARY.with_name(SONAME)
    if not link.exists():
        link.symlink_to(LIBRARY.name)
    return [f"-L{LIBRARY.parent}", f"-Wl,-rpath,{LIBRARY.parent}", "-lmainstay"]


def build(program, sources, *flags, mpi=OPENMPI, compiler="mpicc", standard="c11"):
    """Compiles files to the file `program` with a compiler of `mpi`; a warning is an error."""
    strict = [mpi.command(compiler), f"-std={standard}", *WARNINGS]
    words = [*strict, *HEADERS, *sources, *link_flags(), *flags]
    once(program, words, sources, lambda made: run([*words, "-o", made]))


def run(command):
    subprocess.run(list(map(str, command)), check=True, timeout=LIMIT_S)


def once(program, words, sources, make):
    """Puts the file that `make` compiles, given a path, at `program`. It compiles again only if `words` differ, or if
    the sources changed: `sources` of the project, and the headers beside them and in the library.
    """
    key = hashlib.sha256("\0".join(map(str, words)).encode())
    key.update(str(Path(words[0]).stat().st_mtime_ns).encode())
    sources = [Path(source).resolve() for source in sources]
    if not all(source.is_relative_to(ROOT) for source in sources):
        return make(program)
    folders = {*INCLUDED, *(source.parent for source in sources)}
    headers = {path for folder in folders for path in folder.iterdir() if path.suffix in (".h", ".hpp")}
    for path in sorted({*headers, *sources}):
        key.update(f"\0{path}\0".encode() + path.read_bytes())
    COMPILED.mkdir(parents=True, exist_ok=True)
    made = COMPILED / key.hexdigest()[:32]
    # One process compiles; others that need the same file wait.
    with open(made.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = made.with_suffix(".unfinished")
            make(unfinished)
            unfinished.rename(made)
    # A program that is running keeps its old file.
    Path(program).unlink(missing_ok=True)
    shutil.copy2(made, program)
