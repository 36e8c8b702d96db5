"""Builds a benchmark's MPI program and runs it."""

import json
import os
import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "target" / "release" / "libmainstay.so"
SONAME = "libmainstay.so.0"
END_LIMIT_S = 15


def command(name):
    """The path of a command of Open MPI, which comes as a wheel."""
    return str(Path(sysconfig.get_path("scripts")) / name)


def build(folder, program):
    """Compiles the C files of `folder` against the library in target/release to the file `program`."""
    if not LIBRARY.exists():
        raise SystemExit(f"{LIBRARY} is missing: run `make build` first")
    # The loader looks for the library under its soname, which cargo does not make a file of.
    link = LIBRARY.with_name(SONAME)
    if not link.exists():
        link.symlink_to(LIBRARY.name)
    subprocess.run(
        [
            command("mpicc"), "-std=c11", "-O3", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
            f"-I{ROOT / 'capi' / 'include'}", f"-I{ROOT / 'capi' / 'mpi'}",
            *map(str, sorted(folder.glob("*.c"))), "-o", str(program),
            f"-L{LIBRARY.parent}", f"-Wl,-rpath,{LIBRARY.parent}", "-lmainstay", "-pthread",
        ],
        check=True,
        timeout=300,
    )  # fmt: skip


def run(ranks, arguments, scratch, limit_s):
    """Runs a program that prints a line of JSON for each measurement; returns them. The program ends
    with mpiexec, however that ends (PR_SET_PDEATHSIG)."""
    environment = dict(
        os.environ,
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        TMPDIR=str(scratch),  # Open MPI keeps files of its own while it runs
    )
    process = subprocess.Popen(
        [command("mpiexec"), "-n", str(ranks), "--map-by", ":OVERSUBSCRIBE", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # Ctrl-C is ours: we end the job in order
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    finally:
        end(process)
    if process.returncode != 0:
        raise SystemExit(f"{arguments[0]} ended with status {process.returncode}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def end(process):
    """Leaves no process behind."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
