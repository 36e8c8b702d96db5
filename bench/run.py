"""The cost of three checkpoints for a whole run of jacobi3d and of adi.

make bench NAME=run             writes bench/out/run.json; QUICK=1: within a minute
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from harness import arguments, confidence, machine, mpi, rows
from run import clocked
from run.sides import NONE, PROGRAMS, SIDES

sys.path.insert(0, str(clocked.EXAMPLES / "jacobi3d"))

import dem  # noqa: E402

CHECKPOINTS = 3  # at equal intervals, as published
TRIAL_PART = 4  # a trial is this much shorter than a run
ALLOWED = 1  # % of the run, in Mainstay on the program's own threads
LIMIT_S = 600  # of one job


def options():
    quick = arguments.QUICK
    parser = arguments.Parser(__doc__, "run.json")
    parser.add_argument("--seconds", type=float, default=1 if quick else 20, help="of one run, about")
    parser.add_argument("--rounds", type=int, default=2 if quick else 5, help="2 or more")
    parser.add_argument("--ranks", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--part", type=int, default=8 if quick else 1, help="all grids are divided by this")
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--sides", default="", help="only sides with this in their name, and none")
    chosen = parser.parse_args()
    if chosen.rounds < 2:
        parser.error("--rounds: a confidence interval needs 2 or more")
    chosen.sides = [side for side in SIDES if side == NONE or (chosen.sides in side.name and (side.quick or not quick))]
    return chosen


class Bench:
    """Runs the programs, each run in a new space that is gone after it."""

    def __init__(self, o, folder):
        self._o, self._folder = o, folder

    def run(self, program, side, steps):
        """The clocks of one run: for each the seconds of each rank."""
        with tempfile.TemporaryDirectory(prefix="run-", dir=self._o.scratch) as scratch:
            every = (steps + 1) // (CHECKPOINTS + 1)
            saving = ["--no-checkpoint"] if side == NONE else ["--space", Path(scratch) / "space", "--every", every]
            words = [self._folder / word if word == "dem" else word for word in program.words(self._o, steps)]
            # Each checkpoint happens at its step, even if the one before is not durable yet.
            variables = ["MAINSTAY_WHEN_BUSY=now", *side.variables()]
            command = ["env", *variables, self._folder / program.name, *words, *saving]
            [clocks] = mpi.run(self._o.ranks, command, scratch, LIMIT_S)
        os.sync()  # what one run leaves to be written, the next one does not pay for
        wanted = 0 if side == NONE else CHECKPOINTS
        if any(count != wanted for count in clocks["checkpoints"]):
            raise SystemExit(f"{program.name}, {side.name}: not {wanted} checkpoints, but {clocks['checkpoints']}")
        return clocks

    def steps(self, program):
        """How many make a run as long as wished: one less than CHECKPOINTS + 1 intervals, so that none is at the end."""
        intervals, tried, took = CHECKPOINTS + 1, 1, 0
        while took < self._o.seconds / TRIAL_PART:
            tried *= TRIAL_PART
            took = max(self.run(program, NONE, tried)["run"])
        return max(2, round(self._o.seconds / took * tried / intervals)) * intervals - 1

    def rounds(self, program, steps):
        """For each side its runs; the sides take turns, in an order that changes from round to round."""
        runs = {side: [] for side in self._o.sides}
        for number in range(self._o.rounds):
            at = number * len(self._o.sides) // self._o.rounds
            order = self._o.sides[at:] + self._o.sides[:at]
            for side in order if number % 2 == 0 else reversed(order):
                runs[side].append(self.run(program, side, steps))
        return runs


def of_side(case, side, runs, calm):
    """All rows of a side; `calm`: the runs without checkpoints, of the same rounds."""
    took, calm_took = ([max(run["run"]) for run in some] for some in (runs, calm))
    low, mean, high = confidence.interval([100 * (a / b - 1) for a, b in zip(took, calm_took)])

    return [
        rows.floor(case, "run_none", calm_took, "s"),
        rows.row(case, "run", took, "s", "run_none", calm_took),
        rows.row(case, "overhead_low", [low], "%"),
        rows.row(case, "overhead", [mean], "%"),
        rows.row(case, "overhead_high", [high], "%"),
        rows.floor(case, "in_mainstay_allowed", [ALLOWED], "%"),
        rows.row(
            case,
            "in_mainstay",
            clocked.inside(runs, *clocked.CLOCKS),
            "%",
            "in_mainstay_allowed",
            [ALLOWED],
            1 if side.asked else None,
        ),  # fmt: skip
        *(rows.row(case, f"in_{clock}", clocked.inside(runs, clock), "%") for clock in clocked.CLOCKS),
    ]


def need_room(o):
    """Keep 1: three revisions in a space, and a little."""
    most = max(nx * ny * nz * program.bytes_each for program in PROGRAMS for nx, ny, nz in [program.grid(o)])
    needed = 4 * most + 2**28
    o.scratch.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(o.scratch).free
    print(f"needs {needed / 2**30:.1f} GiB of the disk while it runs ({free / 2**30:.1f} free in {o.scratch})")
    if free < needed:
        raise SystemExit("too little room on the disk; --scratch names another place")


def main():
    o = options()
    need_room(o)
    print(machine.describe(o.scratch), flush=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        bench = Bench(o, Path(folder))
        dem.write(Path(folder) / "dem")
        for program in PROGRAMS:
            if o.only not in (case := program.case(o)):
                continue
            clocked.build(program.name, Path(folder))
            steps = bench.steps(program)
            minutes = len(o.sides) * o.rounds * o.seconds / 60
            print(
                f"\n{case}: {steps} steps, {len(o.sides)} sides, {o.rounds} rounds, about {minutes:.0f} min", flush=True
            )
            runs = bench.rounds(program, steps)
            for side in o.sides[1:]:
                of_case = of_side(f"{case}, {side.name}", side, runs[side], runs[NONE])
                print(rows.table(of_case), flush=True)
                made += of_case
    rows.end(o.out / "run.json", made)


if __name__ == "__main__":
    main()
