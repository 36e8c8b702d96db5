"""Saving early: less time in which a program waits for its checkpoints (paper 004, Figures 6 to 8, Table 1).

    make bench NAME=speculation     writes bench/out/speculation.json and .svg; QUICK=1: small, within a minute

MEMWRITE and adi run with interval and bandwidth scaled down together: all processes write through one throttled device.
Before that, recorded programs are replayed. A run is recorded first: the recording is the oracle's knowledge, and
`mainstay oracle` prints the expected gain from it.
"""

import glob
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import arguments, machine, mpi, rows
from speculation import results
from speculation.programs import LEARN, PROGRAMS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import library  # noqa: E402

HERE = Path(__file__).resolve().parent
MAINSTAY = HERE.parent / "target" / "release" / "mainstay"
LIMIT_S = 900  # of one job
TRACES = HERE.parent / "cli" / "tests" / "traces"
# For each recorded program: the iterations from checkpoint to checkpoint. cg.A has too few for 20.
RECORDED = {"bt.A.long.bin": (5, 20), "bt.W.bin": (5, 20), "sp.W.bin": (5, 20), "cg.A.bin": (2, 5)}
QUICK = {
    "traces": ("bt.W.bin",),
    "part": 64,
    "processes": (2,),
    "rounds": 1,
    "speed": 64,
    "shorter": 8,
    "side": 24,
    "every": 3,
}


def options():
    quick = QUICK if arguments.QUICK else {}
    parser = arguments.Parser(__doc__, "speculation.json", has_scratch=False)
    parser.add_argument("--part", type=int, default=quick.get("part", 8), help="of MEMWRITE's memory, one in so many")
    parser.add_argument("--speed", type=float, default=quick.get("speed", 32), help="times as fast as published")
    parser.add_argument("--shorter", type=float, default=quick.get("shorter", 2),
                        help="so much less time has MEMWRITE from one checkpoint to the next")  # fmt: skip
    parser.add_argument("--side", type=int, default=quick.get("side", 64), help="cells of adi's cube, along a side")
    parser.add_argument(
        "--every", type=int, default=quick.get("every", 5), help="steps of adi from one checkpoint to the next"
    )
    parser.add_argument("--share", type=float, default=0.25, help="of adi's interval, which its field takes to save")
    parser.add_argument("--processes", type=int, nargs="+", default=quick.get("processes", (1, 2, 4, 8, 16)))
    parser.add_argument("--ways", nargs="+", choices=results.WAYS, default=results.WAYS)
    parser.add_argument("--traces", nargs="*", choices=RECORDED, default=quick.get("traces", tuple(RECORDED)))
    parser.add_argument("--rounds", type=int, default=quick.get("rounds", 1))
    parser.add_argument("--only", nargs="+", default=[""], help="only cases with one of these in their name")
    chosen = parser.parse_args()
    needed = (results.INCREMENTAL, *results.PREDICTORS)
    chosen.ways = [way for way in results.WAYS if way in chosen.ways or way in needed]
    return chosen


def settings(way, traces):
    if way == results.FULL:
        return {"CAPTURE": "whole"}
    made = {"CAPTURE": "incremental", "STAGGER": "off" if way.endswith(results.APART) else "on"}
    predictor = results.predictor_of(way)
    return made | {"PREDICTOR": "off" if way == results.INCREMENTAL else predictor, "ORACLE": traces}


def replays(o):
    """Replays recorded programs, with whole iterations in each interval, with one cut in its middle, and with nothing
    to learn from."""
    for name, iterations, inside, share in itertools.product(o.traces, (0, 1), (False, True), (0.1, 0.25)):
        every = RECORDED[name][iterations]
        case = f"replay of {name.removesuffix('.bin')}, {every} iterations{', cut' * inside}, x = {share}"
        if any(part in case for part in o.only):
            words = ["--iterations", every, "--share", share, *["--inside"] * inside, TRACES / name]
            yield results.replay_rows(case, oracle("--learn", LEARN, *words), oracle("--learn", 0, *words))


def oracle(*words):
    """The figures of `mainstay oracle` for one trace, by predictor."""
    command = [MAINSTAY, "oracle", "--json", *map(str, words)]
    told = subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    [trace] = json.loads(told.stdout)["traces"]
    return {one["predictor"]: one for one in trace["predictors"]}


class Bench:
    def __init__(self, o, folder):
        self.o, self.folder = o, Path(folder)
        for program in PROGRAMS:
            library.build(self.folder / program.name, program.sources, "-O2", *program.flags)
        throttle = HERE / "speculation" / "throttle.c"
        command = ["cc", "-shared", "-fPIC", "-O2", throttle, "-o", self.folder / "throttle.so", "-ldl"]
        subprocess.run(command, check=True, timeout=LIMIT_S)

    def run(self, program, processes, chosen, bandwidth=None):
        """Runs a job with the settings `chosen`. `bandwidth` is in bytes a second; without it the job is not
        throttled."""
        with tempfile.TemporaryDirectory(prefix="speculation-", dir=self.o.out) as scratch:
            # Each checkpoint happens at its step, even if the one before is not durable yet.
            chosen = {**chosen, "WHEN_BUSY": "now"}
            variables = [f"MAINSTAY_{name}={value}" for name, value in chosen.items()]
            if bandwidth:
                throttle = {"CLOCK": f"{scratch}/clock", "BELOW": f"{scratch}/space", "BYTES": bandwidth}
                variables += [f"THROTTLE_{name}={value}" for name, value in throttle.items()]
                variables.append(f"LD_PRELOAD={self.folder / 'throttle.so'}")
            words = [self.folder / program.name, *program.words(f"{scratch}/space")]
            process = mpi.start(processes, ["env", *variables, *words], scratch, subprocess.DEVNULL)
            try:
                output, _ = process.communicate(timeout=LIMIT_S)
            finally:
                mpi.end(process)
            mpi.check_ended(process, words)
        return program.ran(output)

    def case(self, program, processes):
        ran, predicted = {way: [] for way in self.o.ways}, {name: [] for name in results.PREDICTORS}
        for _ in range(self.o.rounds):
            with tempfile.TemporaryDirectory(prefix="traces-", dir=self.folder) as traces:
                recorded = self.run(program, processes, {"CAPTURE": "whole", "TRACE": traces})
                bandwidth = program.bandwidth(recorded)
                for name, part in self.predict(program, processes, bandwidth, traces).items():
                    predicted[name].append(part)
                for way in self.o.ways:
                    ran[way].append(self.run(program, processes, settings(way, traces), bandwidth))
        return results.case_rows(program.case(processes), ran, predicted)

    def predict(self, program, processes, bandwidth, traces):
        """The part of the writes of all processes that `mainstay oracle` expects to be saved early."""
        words = ["--iterations", program.iterations, "--bandwidth", int(bandwidth), "--processes", processes]
        # Before the first checkpoint nothing is saved early.
        command = [MAINSTAY, "oracle", "--json", "--learn", 1 + LEARN, *words, *sorted(glob.glob(f"{traces}/*.trace"))]
        told = subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=LIMIT_S)
        found = [one for trace in json.loads(told.stdout)["traces"] for one in trace["predictors"]]
        pages = {name: [one for one in found if one["predictor"] == name] for name in results.PREDICTORS}
        return {
            name: sum(one["early_pages"] for one in of) / max(1, sum(one["dirty_pages"] for one in of))
            for name, of in pages.items()
        }


def main():
    o = options()
    o.out.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.out), flush=True)
    made = []
    for of_case in replays(o):
        print(rows.table(of_case), flush=True)
        made += of_case
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        bench = Bench(o, folder)
        for program in (program(o) for program in PROGRAMS):
            for processes in o.processes:
                if not any(part in program.case(processes) for part in o.only):
                    continue
                of_case = bench.case(program, processes)
                print(rows.table(of_case), flush=True)
                made += of_case
                rows.write(o.out / "speculation.json", made)  # what ends it later leaves this
    rows.end(o.out / "speculation.json", made)


if __name__ == "__main__":
    main()
