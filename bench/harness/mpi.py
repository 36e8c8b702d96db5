"""Builds a benchmark's MPI program and runs it."""

import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import library  # noqa: E402
from mpi import BUILT, OPENMPI  # noqa: E402

PARTS = Path(__file__).resolve().parent / "c"  # what the programs share
END_LIMIT_S = 15
MAINSTAY = BUILT / "mainstay"
PYTHON = OPENMPI.command("python")


def build(folder, program, *flags):
    """Compiles the C files of `folder` and of harness/c against the library in target/release to the file
    `program`."""
    sources = sorted([*folder.glob("*.c"), *PARTS.glob("*.c")])
    library.build(program, sources, f"-I{PARTS}", "-O3", "-pthread", *flags)


def run(ranks, arguments, scratch, limit_s, before=(), options=()):
    """Runs a program that prints a line of JSON for each measurement, and returns the lines. The program ends when
    mpiexec ends, for whatever reason (PR_SET_PDEATHSIG). `before`: words in front of mpiexec. `options`: options of
    mpiexec, in place of those that allow any number of ranks on one node."""
    process = start(ranks, arguments, scratch, subprocess.DEVNULL, before, options)
    try:
        output, _ = process.communicate(timeout=limit_s)
    finally:
        end(process)
    check_ended(process, arguments)
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def converse(ranks, arguments, scratch, limit_s, told):
    """Like `run`, for a program that waits for a line of input after each line of JSON. It gets the line when `told`
    has returned; `told` is called with the printed line."""
    process = start(ranks, arguments, scratch, subprocess.PIPE)
    limit = threading.Timer(limit_s, process.kill)
    limit.start()
    try:
        for line in process.stdout:
            if line.startswith("{"):
                told(json.loads(line))
                process.stdin.write("\n")
                process.stdin.flush()
        process.wait()
    finally:
        limit.cancel()
        end(process)
    check_ended(process, arguments)


def start(ranks, arguments, scratch, stdin, before=(), options=()):
    return subprocess.Popen(
        [
            *before,
            *dataclasses.replace(OPENMPI, oversubscribe=options or OPENMPI.oversubscribe).mpiexec(ranks, arguments),
        ],
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        env=OPENMPI.environment(scratch),
        start_new_session=True,  # Ctrl-C is ours: we end the job in order
    )


def check_ended(process, arguments):
    if process.returncode != 0:
        raise SystemExit(f"{arguments[0]} ended with status {process.returncode}")


class Measured:
    """The lines that jobs printed. A round took as long as its slowest rank; rounds below 0 are warm-ups."""

    def __init__(self, printed):
        self.printed = printed

    def rounds(self, side):
        return [line for line in self.printed if line["side"] == side and line["round"] >= 0]

    def of(self, side, name="seconds", together=max):
        return [together(line[name]) for line in self.rounds(side)]

    def first(self, side, name="seconds"):
        return next([max(line[name])] for line in self.printed if line["side"] == side)


def end(process):
    """Leaves no process behind."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
