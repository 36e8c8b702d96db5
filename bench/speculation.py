"""What saving early takes off the time for which a program waits for its checkpoints (paper 004, Figures 6 to 8).

    make bench NAME=speculation     writes bench/out/speculation.json; QUICK=1: small, within a minute

MEMWRITE as published, interval and bandwidth scaled down together: all processes write through a device that is throttled
for all of them together.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import machine, mpi, rows

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import library  # noqa: E402

HERE = Path(__file__).resolve().parent
MEMWRITE = HERE.parent / "examples" / "memwrite" / "memwrite.c"
LIMIT_S = 900  # of one job
PUBLISHED = {"mb": 300, "seconds": 944, "bandwidth": 30e6}
DONE = re.compile(r"^done: checkpoints (\S+) s, (\d+) of (\d+) blocks early, (\d+) in vain", re.M)
FULL, INCREMENTAL = "full", "incremental"
PREDICTORS = ("infrequent", "auto", "infrequent_apart")
QUICK = {"part": 64, "processes": (2,), "rounds": 1, "speed": 64}


def options():
    quick = QUICK if os.environ.get("QUICK", "") not in ("", "0") else {}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=int, default=quick.get("part", 8), help="of the published memory, one in so many")
    parser.add_argument("--speed", type=float, default=quick.get("speed", 16), help="times as fast as published")
    parser.add_argument("--processes", type=int, nargs="+", default=quick.get("processes", (1, 2, 4, 8, 16)))
    parser.add_argument("--rounds", type=int, default=quick.get("rounds", 3))
    parser.add_argument("--out", type=Path, default=HERE / "out", help="where speculation.json goes")
    return parser.parse_args()


def settings(way):
    if way == FULL:
        return {"MAINSTAY_CAPTURE": "whole"}
    predictor = way.removesuffix("_apart").replace(INCREMENTAL, "off")
    stagger = "off" if way.endswith("_apart") else "on"
    return {"MAINSTAY_CAPTURE": "incremental", "MAINSTAY_PREDICTOR": predictor, "MAINSTAY_STAGGER": stagger}


class Bench:
    def __init__(self, o, folder):
        self.o, self.folder = o, Path(folder)
        library.build(self.folder / "memwrite", [MEMWRITE], "-O2")
        throttle = HERE / "speculation" / "throttle.c"
        command = ["cc", "-shared", "-fPIC", "-O2", throttle, "-o", self.folder / "throttle.so", "-ldl"]
        subprocess.run(command, check=True, timeout=LIMIT_S)

    def run(self, processes, way):
        """The time in checkpoints, and the shares of blocks that went early, and in vain."""
        o = self.o
        with tempfile.TemporaryDirectory(prefix="speculation-", dir=o.out) as scratch:
            throttle = {
                "THROTTLE_CLOCK": f"{scratch}/clock",
                "THROTTLE_BELOW": f"{scratch}/space",
                # As much slower as there is less to save, and as the program is faster.
                "THROTTLE_BYTES": PUBLISHED["bandwidth"] / o.part * o.speed,
                "LD_PRELOAD": self.folder / "throttle.so",
            }
            variables = [f"{name}={value}" for name, value in {**settings(way), **throttle}.items()]
            megabytes = PUBLISHED["mb"] // o.part // 4 * 4
            seconds = PUBLISHED["seconds"] / o.speed
            words = [self.folder / "memwrite", f"{scratch}/space", "--mb", megabytes, "--seconds", seconds]
            process = mpi.start(processes, ["env", *variables, *words], scratch, subprocess.DEVNULL)
            try:
                output, _ = process.communicate(timeout=LIMIT_S)
            finally:
                mpi.end(process)
            mpi.check_ended(process, words)
        seconds, early, dirty, vain = DONE.search(output).groups()
        return float(seconds), int(early) / max(1, int(dirty)), int(vain) / max(1, int(dirty))


def main():
    o = options()
    o.out.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.out), flush=True)
    made, ways = [], (FULL, INCREMENTAL, *PREDICTORS)
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        bench = Bench(o, folder)
        for processes in o.processes:
            case = f"memwrite, {processes} x {PUBLISHED['mb'] // o.part} MB"
            took = {way: [] for way in ways}
            shares = {way: [] for way in ways}
            for _ in range(o.rounds):
                for way in ways:
                    seconds, early, vain = bench.run(processes, way)
                    took[way].append(seconds)
                    shares[way].append((early, vain))
            of_case = [rows.floor(case, INCREMENTAL, took[INCREMENTAL], "s")]
            against = took[INCREMENTAL]
            for way in ways:
                if way != INCREMENTAL:
                    target = 1.0 if way in PREDICTORS else None
                    of_case.append(rows.row(case, way, took[way], "s", INCREMENTAL, against, target))
            for way in PREDICTORS:
                early, vain = (rows.median(share) for share in zip(*shares[way]))
                print(f"{case}, {way}: {100 * early:.0f}% early, {100 * vain:.0f}% in vain", flush=True)
            print(rows.table(of_case), flush=True)
            made += of_case
            rows.write(o.out / "speculation.json", made)  # what ends it later leaves this
    rows.tell_missed(made)


if __name__ == "__main__":
    main()
