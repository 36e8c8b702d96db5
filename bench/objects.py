"""What it costs a program made of objects to lose ranks: leanmd goes on with fewer, and has the load balanced again.

    make bench NAME=objects         writes bench/out/objects.json and plots; QUICK=1: small, within a minute
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import machine, mpi, rows
from objects import plots

HERE = Path(__file__).resolve().parent
LEANMD = HERE.parent / "examples" / "leanmd" / "leanmd.cpp"
MAINSTAY = HERE.parent / "target" / "release" / "mainstay"
SHARED_MEMORY = Path("/dev/shm")
LIMIT_S = 3600  # of a job
TARGET = 1.1
QUICK = {"ranks": 5, "lost": (0, 1, 2), "steps": 36, "cells": "3x4x4", "atoms": 900, "every": 5, "balance_after": 3}


def options():
    quick = QUICK if os.environ.get("QUICK", "") not in ("", "0") else {}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=quick.get("ranks", 16))
    parser.add_argument("--lost", type=int, nargs="+", default=quick.get("lost", (0, 1, 2, 5, 10)), help="ranks, a run each")
    parser.add_argument("--steps", type=int, default=quick.get("steps", 220))
    parser.add_argument("--cells", default=quick.get("cells", "7x10x10"))
    parser.add_argument("--atoms", type=int, default=quick.get("atoms", 92224))
    parser.add_argument("--every", type=int, default=quick.get("every", 10), help="steps between checkpoints")
    parser.add_argument("--balance-after", type=int, default=quick.get("balance_after", 5), help="steps after a loss")
    parser.add_argument("--strategy", default="greedy")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="where objects.json and the plots go")
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
        """The work that the step cannot be faster than, where ranks share so many cores."""
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
        settings = {"NODES": memory, "MAINSTAY_MEMORY": "auto", "MAINSTAY_PFS_EVERY": 0, "MAINSTAY_POOL_DIRECTORY": memory}
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
    yield rows.row(case, "busiest", [rows.median(busiest)], "pairs", "average", [rows.median(average)], TARGET if lost else None)
    if lost:
        yield rows.row(case, "restore", made.restores_s, "s")
        for part, seconds in made.parts.items():
            yield rows.row(case, part, [seconds], "s")
    first = calm.steps[0].total
    for number, step in enumerate(made.steps):
        yield rows.row(f"{case}, each", f"busiest_{number}", [step.busiest / first], "of all")
        yield rows.row(f"{case}, each", f"seconds_{number}", [step.seconds], "s")


def main():
    o = options()
    # What runs goes with it, however it is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    o.out.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.out), flush=True)
    made, calm = [], None
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        program = Path(folder) / "leanmd"
        mpi.library.build(program, [LEANMD], "-O3", compiler="mpicxx", standard="c++17")
        for lost in sorted({0, *o.lost}):
            found = run(o, program, folder, lost)
            calm = calm or found
            if found.mark != calm.mark:
                raise SystemExit(f"{lost} ranks are lost: another result than without")
            of_case = list(rows_of(o, lost, found, calm))
            print(rows.table([row for row in of_case if not row["case"].endswith(", each")]), flush=True)
            made += of_case
            rows.write(o.out / "objects.json", made)  # what ends it later leaves this
    rows.end(o.out / "objects.json", made, plots.draw)


if __name__ == "__main__":
    main()
