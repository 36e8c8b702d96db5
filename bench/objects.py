"""The cost of lost ranks for a program made of objects: leanmd goes on with fewer ranks and balances the load again.

make bench NAME=objects         writes bench/out/objects.json; QUICK=1: small, within a minute
"""

import filecmp
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from harness import arguments, machine, mpi, rows

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
LEANMD = EXAMPLES / "leanmd" / "leanmd.cpp"
sys.path.insert(0, str(EXAMPLES / "jacobi3d"))

import build as jacobi3d  # noqa: E402
import dem  # noqa: E402

MAINSTAY = HERE.parent / "target" / "release" / "mainstay"
SHARED_MEMORY = Path("/dev/shm")
LIMIT_S = 3600  # of a job
TARGET = 1.1
PLAIN_TARGET = 1.05  # of jacobi3d with objects, beside the one without
PLAIN_RANKS, OBJECTS_A_RANK = 2, 16
QUICK = {"ranks": 5, "lost": (0, 1, 2), "steps": 36, "cells": "3x4x4", "atoms": 900, "every": 5, "balance_after": 3}
QUICK |= {"side": 32, "plain_steps": 20, "rounds": 2}


def options():
    quick = QUICK if arguments.QUICK else {}
    parser = arguments.Parser(__doc__, "objects.json", has_scratch=False)
    parser.add_argument("--ranks", type=int, default=quick.get("ranks", 16))
    parser.add_argument(
        "--lost", type=int, nargs="+", default=quick.get("lost", (0, 1, 2, 5, 10)), help="ranks, a run each"
    )
    parser.add_argument("--steps", type=int, default=quick.get("steps", 220))
    parser.add_argument("--cells", default=quick.get("cells", "7x10x10"))
    parser.add_argument("--atoms", type=int, default=quick.get("atoms", 92224))
    parser.add_argument("--every", type=int, default=quick.get("every", 10), help="steps between checkpoints")
    parser.add_argument("--balance-after", type=int, default=quick.get("balance_after", 5), help="steps after a loss")
    parser.add_argument("--strategy", default="graph")
    parser.add_argument("--side", type=int, default=quick.get("side", 256), help="cells along each side of jacobi3d")
    parser.add_argument("--plain-steps", type=int, default=quick.get("plain_steps", 100), help="of jacobi3d")
    parser.add_argument(
        "--rounds", type=int, default=quick.get("rounds", 7), help="of jacobi3d with objects and without"
    )
    return parser.parse_args()


@dataclass
class Step:
    number: int
    ranks: int
    seconds: float
    busiest: float  # pairs of atoms of the busiest rank
    average: float  # and of all of them on average

    @property
    def total(self):
        return self.average * self.ranks

    def least(self, cores):
        """The least time of a step, if the ranks share this number of cores."""
        return max(self.busiest, self.total / cores)


@dataclass
class Run:
    steps: list
    mark: str
    restores_s: list  # of objects, after each loss
    parts: dict  # of the last recovery, as `mainstay status` tells

    @property
    def seconds(self):
        return sum(step.seconds for step in self.steps) + sum(self.restores_s)


def crashes(o, lost):
    """At even spacing, in the middle between two checkpoints."""
    apart = o.steps // (lost + 1)
    spread = [(number + 1) * apart // o.every * o.every + o.every // 2 for number in range(lost)]
    # Rank 0 draws the trace.
    ranks = [1 + number * (o.ranks - 1) // max(lost, 1) for number in range(lost)]
    return [word for rank, step in zip(ranks, spread) for word in ("--crash", f"{rank}@{step}")]


def run(o, program, folder, lost):
    with (
        tempfile.TemporaryDirectory(prefix="mainstay-bench-objects-", dir=SHARED_MEMORY) as memory,
        tempfile.TemporaryDirectory(prefix="objects-", dir=folder) as scratch,
    ):
        scratch = Path(scratch)
        words = [HERE / "objects" / "node.sh", program, "--cells", o.cells, "--atoms", o.atoms, "--steps", o.steps]
        words += ["--every", o.every, "--strategy", o.strategy, "--balance-after", o.balance_after]
        words += ["--space", scratch / "space", "--trace", scratch / "trace", *crashes(o, lost)]
        settings = {
            "NODES": memory,
            "MAINSTAY_MEMORY": "auto",
            "MAINSTAY_PFS_EVERY": 0,
            "MAINSTAY_POOL_DIRECTORY": memory,
        }
        settings["OMPI_MCA_btl_sm_backing_directory"] = scratch
        before = ["env", *(f"{name}={value}" for name, value in settings.items())]
        before += [MAINSTAY, "run", "--in-job", "--recovery", "shrink", "--restarts", 0, "--"]
        process = mpi.start(o.ranks, list(map(str, words)), scratch, subprocess.DEVNULL, list(map(str, before)))
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        finally:
            mpi.end(process)
        mpi.check_ended(process, ["leanmd"])
        steps = [Step(int(n), int(r), *map(float, rest)) for n, r, *rest in map(str.split, (scratch / "trace").open())]
        restores = [float(took) / 1e3 for took in re.findall(r"^revision .* ([\d.]+) ms$", output, re.M)]
        told = subprocess.run([MAINSTAY, "status", "--json", scratch / "space"], capture_output=True, text=True).stdout
        parts = {name: int(ns) / 1e9 for name, ns in re.findall(r'"(regroup|open|copies|state)_ns": ?(\d+)', told)}
        found = re.search(r"^mark (\S+)$", output, re.M)
        if not found or len(restores) != lost:
            raise SystemExit(f"of {lost} losses {len(restores)} were recovered from:\n{output}")
        return Run(steps, found[1], restores, parts)


def rows_of(o, lost, made, calm):
    cores, case = len(os.sched_getaffinity(0)), f"{lost} of {o.ranks} ranks are lost"
    work = sum(step.least(cores) for step in made.steps)
    explained = calm.seconds * work / sum(step.least(cores) for step in calm.steps)
    yield rows.row(case, "seconds", [made.seconds], "s", "explained", [explained], TARGET if lost else None)
    settled = made.steps[-max(1, o.every // 2) :]
    busiest, average = [[getattr(step, name) for step in settled] for name in ("busiest", "average")]
    yield rows.row(
        case, "busiest", [rows.median(busiest)], "pairs", "average", [rows.median(average)], TARGET if lost else None
    )
    if lost:
        yield rows.row(case, "restore", made.restores_s, "s")
        for part, seconds in made.parts.items():
            yield rows.row(case, part, [seconds], "s")
    first = calm.steps[0].total
    for number, step in enumerate(made.steps):
        yield rows.row(f"{case}, each", f"busiest_{number}", [step.busiest / first], "of all")
        yield rows.row(f"{case}, each", f"seconds_{number}", [step.seconds], "s")


def seconds_of(words, steps, folder):
    """From the first tenth of the steps to the last step: the start is left out."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        words = [*words, "--steps", steps, "--progress", steps // 10, "--every", 10**6]
        process = mpi.start(PLAIN_RANKS, list(map(str, words)), Path(scratch), subprocess.DEVNULL)
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        try:
            seen = {line.strip(): time.monotonic() for line in process.stdout}
            process.wait()
        finally:
            limit.cancel()
            mpi.end(process)
    mpi.check_ended(process, ["jacobi3d"])
    return seen[f"step {steps}"] - seen[f"step {steps // 10}"]


def beside_plain(o, folder):
    """jacobi3d made of objects and jacobi3d without objects, in turns; neither saves."""
    folder = Path(folder)
    dem.write(folder / "dem")
    jacobi3d.build(folder / "plain")
    jacobi3d.build_objects(folder / "with")
    sides = {"plain": [folder / "plain"], "objects": [folder / "with", "--objects", PLAIN_RANKS * OBJECTS_A_RANK]}
    took = {side: [] for side in sides}
    for number in range(o.rounds):
        for side, words in sides.items():
            words = [*words, "--dem", folder / "dem", "--out", folder / f"field-{side}"]
            words += [word for axis in "xyz" for word in (f"--n{axis}", o.side)]
            # A program with objects opens a space even if it never saves.
            words += ["--space", folder / f"space-{number}"] if side == "objects" else ["--no-checkpoint"]
            took[side].append(seconds_of(words, o.plain_steps, folder))
    if not filecmp.cmp(folder / "field-plain", folder / "field-objects", shallow=False):
        raise SystemExit("jacobi3d made of objects computes another field")
    case = f"jacobi3d on {PLAIN_RANKS} ranks, {OBJECTS_A_RANK} objects each"
    yield rows.row(case, "objects", took["objects"], "s", "plain", took["plain"], PLAIN_TARGET)


def main():
    o = options()
    # Running jobs end with this process, however it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    o.out.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.out), flush=True)
    made, calm = [], None
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        program = Path(folder) / "leanmd"
        mpi.library.build(program, [LEANMD], "-O3", compiler="mpicxx", standard="c++17")
        made += beside_plain(o, folder)
        print(rows.table(made), flush=True)
        for lost in sorted({0, *o.lost}):
            found = run(o, program, folder, lost)
            calm = calm or found
            if found.mark != calm.mark:
                raise SystemExit(f"{lost} ranks are lost: another result than without")
            of_case = list(rows_of(o, lost, found, calm))
            print(rows.table([row for row in of_case if not row["case"].endswith(", each")]), flush=True)
            made += of_case
            rows.write(o.out / "objects.json", made)  # what ends it later leaves this
    rows.end(o.out / "objects.json", made)


if __name__ == "__main__":
    main()
