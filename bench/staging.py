"""The cost of a checkpoint in pieces for the program, by stage, threshold, pool and chunk.

make bench NAME=staging         writes bench/out/staging.json; QUICK=1: small, within a minute
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import arguments, machine, mpi, profile, rows
from staging import mix, results, sides

HERE = Path(__file__).resolve().parent
MAINSTAY = HERE.parent / "target" / "release" / "mainstay"
SHARED_MEMORY = Path("/dev/shm")
MIB = 2**20
RANKS = 8  # of a node, as published
LIMIT_S = 900  # of one job
MEMORY_ROUNDS = 3
REVISIONS = 3.3  # that a space has room for, with what it keeps besides
QUICK = {
    "ranks": 4,
    "rounds": 2,
    "mixes": (mix.LU,),
    "thresholds": (64,),
    "pools": (16, 64, 256),
    "chunks": (1024, 4096),
}


def options():
    quick = QUICK if arguments.QUICK else {}
    parser = arguments.Parser(__doc__, "staging.json")
    parser.add_argument("--ranks", type=int, default=quick.get("ranks", RANKS))
    parser.add_argument("--rounds", type=int, default=quick.get("rounds", 9))
    parser.add_argument("--only", nargs="+", default=[""], help="only cases with one of these in their name")
    chosen = parser.parse_args()
    chosen.mixes = quick.get("mixes", mix.MIXES)
    chosen.thresholds = quick.get("thresholds", sides.THRESHOLDS_KIB)
    chosen.pools = quick.get("pools", sides.POOLS_MIB)
    chosen.chunks = quick.get("chunks", sides.CHUNKS_KIB)
    return chosen


def need_room(o):
    """The spaces of a case and their pools are all open at the same time."""
    spaces = len(o.pools) + 1
    needed = int(spaces * REVISIONS * max(of.bytes for of in o.mixes) * o.ranks)
    pools = (sum(o.pools) + sides.POOL_MIB) * MIB
    o.scratch.mkdir(parents=True, exist_ok=True)
    for folder, bytes_needed in ((o.scratch, needed), (SHARED_MEMORY, pools)):
        free = shutil.disk_usage(folder).free
        print(f"needs {bytes_needed / 2**30:.1f} GiB in {folder} while it runs ({free / 2**30:.1f} free)")
        if free < bytes_needed:
            raise SystemExit(f"too little room in {folder}; --scratch names another place for the data on the disk")


class Cases:
    """The cases of one mix. Each case has a scratch folder of its own and returns its rows."""

    def __init__(self, o, of, program, folder):
        self.o, self.of, self.program = o, of, program
        self.data_bytes = o.ranks * of.bytes
        self.pieces = Path(folder) / f"pieces-{of.name}"
        self.pieces.write_text("\n".join(map(str, mix.pieces(of))) + "\n")

    def all(self):
        """The names, and the functions to call with them."""
        o = self.o
        yield f"{self.of.name}, stages", self.stages
        yield f"{self.of.name}, pools", self.pools
        yield f"{self.of.name}, chunks", lambda name: self.compare(name, sides.chunks(o.chunks))
        for stage in ("node", "rank"):
            compared = sides.thresholds(stage, o.thresholds)
            yield f"{self.of.name}, {stage} thresholds", lambda name, compared=compared: self.compare(name, compared)
        yield f"{self.of.name}, restart", self.restart
        yield f"{self.of.name}, memory", self.memory
        yield f"{self.of.name}, profile", self.profile

    def scratch(self):
        return tempfile.TemporaryDirectory(prefix="staging-", dir=self.o.scratch)

    def job(self, mode, scratch, of_sides, rounds):
        data = Path(scratch) / "data"
        data.mkdir(exist_ok=True)
        words = [self.program, mode, data, self.pieces, rounds, *(side.word for side in of_sides)]
        return mpi.run(self.o.ranks, words, scratch, LIMIT_S)

    def save(self, scratch, *of_sides):
        return results.Saved(self.job("save", scratch, of_sides, self.o.rounds))

    def stages(self, name):
        with self.scratch() as scratch:
            saved = self.save(scratch, *sides.floors(), *sides.files(), *sides.stages())
        return results.stages_rows(name, self.of, saved, self.data_bytes, sides.POOL_MIB * MIB)

    def pools(self, name):
        of_sides = sides.pools(self.o.pools)
        with self.scratch() as scratch:
            saved = self.save(scratch, *sides.against(), *of_sides)
            advised = advised_bytes(Path(scratch) / "data" / f"pool_{sides.POOL_MIB}.space")
        return results.pools_rows(name, saved, of_sides, self.data_bytes, advised)

    def compare(self, name, of_sides):
        with self.scratch() as scratch:
            saved = self.save(scratch, *sides.against(), *of_sides)
        return results.sides_rows(name, saved, of_sides)

    def profile(self, name):
        """Of the pieces that are written at once, and of those that are copied to a pool which holds all."""
        pool = sides.session("pool", "pool", pool_mib=sides.POOLS_MIB[-1])
        with self.scratch() as scratch:
            self.job("save", scratch, [sides.DIRECT, pool], 1)
            spaces = (Path(scratch) / "data" / f"{side.name}.space" for side in (sides.DIRECT, pool))
            written, copied = map(profile.revision, spaces)
        return [*profile.profile_rows(name, written), *profile.profile_rows(f"{name} of the pool", copied)]

    def restart(self, name):
        of_sides = [sides.Side(sides.READ), sides.Side(sides.PUBLISHED), *sides.stages()]
        with self.scratch() as scratch:
            self.job("save", scratch, of_sides, 0)
            restarted = mpi.Measured(self.job("restart", scratch, of_sides, self.o.rounds))
        return results.restart_rows(name, restarted, self.data_bytes)

    def memory(self, name):
        measured = []
        for side in sides.memory(self.o.thresholds):
            with self.scratch() as scratch:
                measured.append((side, mpi.Measured(self.job("memory", scratch, [side], MEMORY_ROUNDS))))
        return results.memory_rows(name, measured, self.o.ranks)


def advised_bytes(space):
    """The pool size that `mainstay advise` recommends from the records of a space."""
    command = [MAINSTAY, "advise", space, "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S).stdout)
    return told["advised_pool_bytes"]


def main():
    o = options()
    need_room(o)
    print(machine.describe(o.scratch), flush=True)
    made = []
    with (
        tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder,
        # Pools of an interrupted job are removed with this folder.
        tempfile.TemporaryDirectory(prefix="mainstay-bench-", dir=SHARED_MEMORY) as pools,
    ):
        os.environ["MAINSTAY_POOL_DIRECTORY"] = pools
        program = Path(folder) / "staging"
        mpi.build(HERE / "staging", program)
        for of in o.mixes:
            for name, measure in Cases(o, of, program, folder).all():
                if any(part in name for part in o.only):
                    of_case = measure(name)
                    print(rows.table(of_case), flush=True)
                    made += of_case
                    rows.write(o.out / "staging.json", made)  # what ends it later leaves this
    rows.end(o.out / "staging.json", made)


if __name__ == "__main__":
    main()
