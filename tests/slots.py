"""Programs for ranks in slots: built by Mainstay's compilers, and run alone or under a launcher."""

import os
import subprocess
from pathlib import Path

import library
from command import MAINSTAY
from limits import LIMIT_S
from mpi import MPICH, OPENMPI, ROOT, processes
from programs import BUILT
from supervised import run

FOLDER = Path(__file__).resolve().parent / "ranks"
COMPILERS = {".c": "mpicc", ".cpp": "mpicxx", ".f90": "mpifort"}
# Modules and host programs are compiled once for all tests.
CACHE = {"XDG_CACHE_HOME": str(ROOT / "target" / "tests" / "cache")}
WARNINGS = ("-Wall", "-Wextra")


def build(source, *flags, name=None):
    """The path of the program, compiled from a file in tests/ranks by Mainstay's compiler."""
    source = FOLDER / source
    os.environ.update(CACHE)
    return made(
        [MAINSTAY, COMPILERS[source.suffix], "-O1", *WARNINGS, *flags], [source], name or f"slots-{source.name}"
    )


def killer():
    """The library that kills a host of ranks at an event; see tests/ranks/killer.c."""
    words = [OPENMPI.command("mpicc"), "-O1", *WARNINGS, "-Werror", "-shared", "-fPIC"]
    return made(words, [FOLDER / "killer.c"], "killer.so")


def build_native(sources, name):
    """The path of a program that was compiled by MPICH. It runs in slots as it is."""
    words = [MPICH.command("mpicc"), "-std=c11", "-D_GNU_SOURCE", "-O1", *WARNINGS, "-Werror", "-fPIE", "-pie"]
    return made(words, sources, name)


def made(words, sources, name):
    program = BUILT / "slots" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    modules = [f"-J{program.parent}"] if "mpifort" in words else []
    compile_it = [*words, *modules, *sources]
    library.once(program, compile_it, sources, lambda made: library.run([*compile_it, "-o", made]))
    return program


def on(processes, command, mpi):
    """The words that run the command on a number of processes; 0 is one without a launcher."""
    if not processes:
        return list(map(str, command))
    variables = (f"{name}={value}" for name, value in mpi.variables)
    return ["env", *variables, *mpi.mpiexec(processes, command)]


def hosts(pid):
    """The processes below `pid` that hold ranks."""
    found, above = [], [pid]
    while above:
        above = [child for child, parent in processes() if parent in above]
        found += [pid for pid in above if "host-ranks" in called(pid)[1:2] or called(pid)[0].endswith("mainstay-ranks")]
    return found


def called(pid):
    try:
        return Path("/proc", str(pid), "cmdline").read_text().split("\0")
    except OSError:
        return [""]


def in_slots(command, ranks, folder, mpi=None, processes=0, options=(), restarts=0, **variables):
    """Runs the command with `ranks` ranks; returns its exit status and its output. Its space is in `folder`."""
    words = ["--restarts", restarts, "--virtual", ranks, "--space", folder / "space", *options, "--"]
    environment = {**os.environ, **CACHE, **{name: str(value) for name, value in variables.items()}}
    return run(*words, *on(processes, command, mpi), cwd=folder, env=environment)


def natively(command, ranks, folder):
    """Runs the command under MPICH. The output must be that of a program that ended well."""
    words = MPICH.mpiexec(ranks, command)
    environment = MPICH.environment(folder)
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done
    return done.stdout.splitlines()
