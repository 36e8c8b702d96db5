"""The cost and gain of saving only changed pages, and of a snapshot, compared with the kernel's part alone.

make bench NAME=pages           writes bench/out/pages.json and pages.svg; QUICK=1: small, within a minute
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import arguments, machine, mpi, rows
from pages import plots, results
from pages.programs import PROGRAMS
from pages.sides import CLONE, COPY, FORCED, HASHES, HUGE, LIST, PAGES, SCAN, SETTINGS, SNAPSHOT, WHOLE, sides
from run import clocked

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(clocked.EXAMPLES / "jacobi3d"))

import dem  # noqa: E402

MAINSTAY = HERE.parent / "target" / "release" / "mainstay"
MIB = 2**20
PAGE_KIB = 4
RESTART_PART = 0.01  # of the pages, between two checkpoints before a restart
LIMIT_S = 900  # of one job
SPACE_PARTS = 3.3  # of the data: a space has room for three revisions
QUICK = {"mib": 16, "rounds": 2, "parts": (0.01,), "stretches": (4,), "revisions": 8, "steps": 8}


def options():
    quick = QUICK if arguments.QUICK else {}
    parser = arguments.Parser(__doc__, "pages.json and pages.svg")
    parser.add_argument("--mib", type=int, default=quick.get("mib", 512), help="of a rank's memory")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=quick.get("rounds", 9))
    parser.add_argument("--parts", type=float, nargs="+", default=quick.get("parts", (0.001, 0.01, 0.1)),
                        help="of the pages, that are written between two checkpoints")  # fmt: skip
    parser.add_argument("--stretches", type=int, nargs="+", default=quick.get("stretches", (4, 64, 1024)),
                        help="KiB that are written in one piece")  # fmt: skip
    parser.add_argument("--revisions", type=int, default=quick.get("revisions", 100), help="before a restart")
    parser.add_argument("--steps", type=int, default=quick.get("steps", 40), help="of the programs, in 4 intervals")
    parser.add_argument("--only", nargs="+", default=[""], help="only cases with one of these in their name")
    chosen = parser.parse_args()
    chosen.programs_part = 8 if quick else 1
    return chosen


def need_room(o):
    """The sessions of a case are all open at the same time."""
    needed = int(len(SETTINGS) * SPACE_PARTS * o.mib * MIB * o.ranks)
    o.scratch.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(o.scratch).free
    print(f"needs {needed / 2**30:.1f} GiB of the disk while it runs ({free / 2**30:.1f} free in {o.scratch})")
    if free < needed:
        raise SystemExit("too little room on the disk; --scratch names another place")


def newest(space):
    """The figures that a space records for its newest revision."""
    command = [MAINSTAY, "show", "--json", space]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S).stdout)["revision"]
    written = sum(shard["phases"]["written_bytes"] for shard in told["shard_list"])
    staged = told["bytes"] - told["zero_bytes"] - sum(shared["bytes"] for shared in told["shares"])
    times = {"perceived": 1e-9 * told["perceived_ns"], "durable": 1e-9 * told["durable_ns"]}
    return {**times, "bytes": written, "staged": staged}


@dataclass(frozen=True)
class Written:
    """The writes of a program between two checkpoints: a part of its pages, in stretches at random places."""

    part: float
    stretch_kib: int = PAGE_KIB

    def __str__(self):
        return f"{100 * self.part:g} % in stretches of {self.stretch_kib} KiB"


def of(measure, size, written, *more):
    """A case, with the function that makes rows from its name."""
    return ", ".join((size, str(written), *more)), lambda case: measure(case, written)


class Bench:
    def __init__(self, o, folder):
        self.o, self.folder, self.bytes = o, Path(folder), o.mib * MIB
        mpi.build(HERE / "pages", self.folder / "pages")
        for program in PROGRAMS:
            clocked.build(program.name, self.folder, program.sources)
        dem.write(self.folder / "dem")

    def scratch(self):
        return tempfile.TemporaryDirectory(prefix="pages-", dir=self.o.scratch)

    def job(self, mode, scratch, written, rounds, chosen):
        sizes = [self.bytes, written.part, written.stretch_kib // PAGE_KIB]
        words = [self.folder / "pages", mode, scratch, *sizes, rounds, *(side.word for side in chosen)]
        return mpi.Measured(mpi.run(self.o.ranks, words, scratch, LIMIT_S))

    def changed(self, case, written):
        names = (WHOLE, PAGES, HASHES)
        with self.scratch() as scratch:
            saved = self.job("save", scratch, written, self.o.rounds, sides(COPY, SCAN, LIST, *names))
            told = {name: newest(Path(scratch) / f"{name}.space") for name in names}
        bytes = {name: told[name]["bytes"] / self.o.ranks for name in names}
        return results.changed_rows(
            case, saved, names, self.bytes, written.part, bytes, told[PAGES]["staged"] / self.o.ranks
        )

    def often(self, case, written):
        with self.scratch() as scratch:
            saved = self.job("save", scratch, written, self.o.revisions, sides(COPY, SCAN, LIST, PAGES))
            staged = newest(Path(scratch) / f"{PAGES}.space")["staged"] / self.o.ranks
        return results.often_rows(case, saved, self.bytes, written.part, staged)

    def restart(self, case, written):
        chosen = sides(WHOLE, PAGES, HASHES)
        with self.scratch() as scratch:
            self.job("save", scratch, written, self.o.revisions, chosen)
            restarted = self.job("restart", scratch, written, self.o.rounds, chosen)
        return results.restart_rows(case, restarted, self.o.revisions)

    def snapshot(self, case):
        names = (WHOLE, SNAPSHOT, f"{SNAPSHOT}{FORCED}", HUGE + SNAPSHOT, f"{HUGE}{SNAPSHOT}{FORCED}")
        with self.scratch() as scratch:
            saved = self.job("save", scratch, Written(1), self.o.rounds, sides(COPY, CLONE, *names))
        return results.snapshot_rows(case, saved, names)

    def program(self, case, program):
        """Whole runs of a program; the sides take turns."""
        names = list(SETTINGS)
        runs, spaces, calm = ({name: [] for name in names}, {name: [] for name in names}, [])
        for number in range(self.o.rounds):
            at = number % (len(names) + 1)
            for name in (names + [None])[at:] + (names + [None])[:at]:
                with self.scratch() as scratch:
                    clocks, newest = self.run(program, name, scratch)
                if name is None:
                    calm.append(clocks)
                else:
                    runs[name].append(clocks)
                    spaces[name].append(newest)
        return results.program_rows(case, runs, calm, spaces)

    def run(self, program, name, scratch):
        space = Path(scratch) / "space"
        every = self.o.steps // 4
        saving = ["--no-checkpoint"] if name is None else ["--space", space, "--every", every]
        [side] = sides(name) if name else [None]
        words = [self.folder / word if word == "dem" else word for word in program.words(self.o)]
        command = ["env", *(side.variables() if side else ()), self.folder / program.name, *words, *saving]
        [clocks] = mpi.run(len(os.sched_getaffinity(0)), command, scratch, LIMIT_S)
        os.sync()  # what one run leaves to be written, the next one does not pay for
        return clocks, newest(space) if side else None

    def cases(self):
        size = f"{self.o.ranks} x {self.o.mib} MiB"
        for stretch in self.o.stretches:
            for part in self.o.parts:
                yield of(self.changed, size, Written(part, stretch))
            yield of(self.often, size, Written(max(self.o.parts), stretch), f"{self.o.revisions} times")
            yield of(self.restart, size, Written(RESTART_PART, stretch), f"restart after {self.o.revisions}")
        yield f"{size}, snapshot", self.snapshot
        for program in PROGRAMS:
            yield program.name, lambda case, program=program: self.program(case, program)


def main():
    o = options()
    need_room(o)
    print(machine.describe(o.scratch), flush=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        bench = Bench(o, folder)
        for case, measure in bench.cases():
            if not any(part in case for part in o.only):
                continue
            of_case = measure(case)
            print(rows.table(of_case), flush=True)
            made += of_case
            rows.write(o.out / "pages.json", made)  # what ends it later leaves this
    rows.end(o.out / "pages.json", made)
    plots.draw(made, o.out)


if __name__ == "__main__":
    main()
