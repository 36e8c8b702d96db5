"""The cost of copies in the memory of several nodes, and the time of a restart from them.

make bench NAME=levels          writes bench/out/levels.json; QUICK=1: small, within a minute or so
"""

import shutil
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import arguments, machine, mpi, rows
from levels import results, slow
from run import clocked

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(clocked.EXAMPLES / "jacobi3d"))

import dem  # noqa: E402

SHARED_MEMORY = Path("/dev/shm")
MB, MIB = 10**6, 2**20
WHOLE_MB = 200  # of jacobi3d, as published
GRID = (320, 320, 244)  # as large
JACOBI_STEPS, JACOBI_EVERY, CHECKPOINTS = 100, 12, 8  # as published
LARGE_MIB = 256  # of a rank
COPIES, KEEP = 2, 1
WORK_STEPS = 20  # so many calls of progress are to be enough
STEP_S_FULL = 0.06  # of 256 MiB a rank; less for less
STEP_S_LEAST = 0.005
SIZE_RANKS = 4  # a node each
DISK_MB_PER_S = 10  # of 2004, for one of the two processors of a node
SHARED_MB_PER_S = 12.5  # a file server behind 100 Mbit
LINK_MBIT = 100
MET_TIMES = 8  # as much memory as is saved takes a job that restarts, its own and the floors' included
LIMIT_S = 1200  # of one job
QUICK = {"part": 32, "rounds": 2, "ranks": (4,), "nodes": (2,), "sizes": (64, 128)}


def options():
    quick = QUICK if arguments.QUICK else {}
    parser = arguments.Parser(__doc__, "levels.json")
    parser.add_argument("--part", type=int, default=quick.get("part", 1), help="all sizes are divided by this")
    parser.add_argument("--rounds", type=int, default=quick.get("rounds", 7))
    parser.add_argument("--ranks", type=int, nargs="+", default=quick.get("ranks", (4, 8, 16)))
    parser.add_argument("--nodes", type=int, nargs="+", default=quick.get("nodes", (2, 4)))
    parser.add_argument("--sizes", type=int, nargs="+", default=quick.get("sizes", (100, 250, 500, 1000, 2000)),
                        help="MB in all, of Figure 5")  # fmt: skip
    parser.add_argument("--only", nargs="+", default=[""], help="only cases with one of these in their name")
    chosen = parser.parse_args()
    if any(ranks % nodes for ranks in chosen.ranks for nodes in chosen.nodes):
        parser.error("--ranks: as many on each of --nodes")
    return chosen


@dataclass(frozen=True)
class Shape:
    ranks: int
    nodes: int
    bytes: int  # of a rank

    @property
    def all_bytes(self):
        return self.ranks * self.bytes


class Bench:
    """Jobs on simulated nodes of this machine. Each node has memory of its own, in a folder of its own."""

    def __init__(self, o, folder):
        self.o, self.folder, self.program = o, Path(folder), Path(folder) / "levels"

    @contextmanager
    def nodes(self, shape):
        """The folder with the memory of the nodes, and a folder that all nodes see."""
        with (
            tempfile.TemporaryDirectory(prefix="mainstay-bench-levels-", dir=SHARED_MEMORY) as memory,
            tempfile.TemporaryDirectory(prefix="levels-", dir=self.o.scratch) as scratch,
        ):
            for node in range(shape.nodes + 1):
                (Path(memory) / str(node)).mkdir()
            yield Path(memory), Path(scratch)

    def job(self, shape, memory, scratch, words, settings, before=(), options=()):
        variables = {"LEVELS_NODES": memory, "MAINSTAY_PFS_EVERY": 0, **settings}
        set_to = [f"{name}={value}" for name, value in variables.items()]
        command = ["env", *set_to, HERE / "levels" / "node.sh", shape.nodes, *words]
        return mpi.run(shape.ranks, command, scratch, LIMIT_S, before, options)

    def measure(self, shape, mode, settings, keys=(), scratch=None, **launch):
        """A job of the benchmark's own program on new nodes."""
        with self.nodes(shape) as (memory, space):
            words = [self.program, mode, f"bytes={shape.bytes}", f"nodes={shape.nodes}", *keys, scratch or space]
            return mpi.Measured(self.job(shape, memory, space, words, settings, **launch))

    def background(self, case, shape):
        step_us = int(1e6 * max(STEP_S_LEAST, STEP_S_FULL * shape.all_bytes / (4 * LARGE_MIB * MIB)))
        keys = [f"rounds={self.o.rounds}", f"steps={WORK_STEPS}", f"step_us={step_us}"]
        return results.background_rows(case, self.measure(shape, "background", in_memory(), keys))

    def blocking(self, case, shape):
        settings = in_memory(MAINSTAY_EXCHANGE="blocking")
        return results.blocking_rows(case, self.measure(shape, "blocking", settings, [f"rounds={self.o.rounds}"]))

    def memory(self, case, shape, feeds):
        """`feeds`: the number of farther levels that each revision goes to: none, the space, or also the disks of the
        nodes."""
        rounds = [f"rounds={KEEP + 3}"]
        with tempfile.TemporaryDirectory(prefix="levels-", dir=self.o.scratch) as disks:
            settings = in_memory(MAINSTAY_PFS_EVERY=int(feeds > 0))
            if feeds > 1:
                settings.update(LEVELS_DISKS=f"{disks}/disk", MAINSTAY_DISK_EVERY=1)
            measured = self.measure(shape, "memory", settings, rounds)
        return results.memory_rows(case, measured, shape.bytes, shape.ranks, COPIES * (KEEP + 1) + feeds)

    def restart(self, case, shape, seats):
        """Node 0 is lost before each restart. `seats`: its ranks run on a spare node, or on the nodes that are left."""
        settings = in_memory(MAINSTAY_MEMORY_AFTER="kept", LEVELS_LOST=0 if seats == "left" else "")
        printed = []
        with self.nodes(shape) as (memory, scratch):
            for round in range(self.o.rounds):
                shutil.rmtree(memory)
                for node in range(shape.nodes + 1):
                    (memory / str(node)).mkdir(parents=True)
                shutil.rmtree(scratch / "space", ignore_errors=True)
                words = [f"bytes={shape.bytes}", f"nodes={shape.nodes}", scratch]
                self.job(shape, memory, scratch, [self.program, "save", *words], {**settings, "LEVELS_LOST": ""})
                shutil.rmtree(memory / "0")
                (memory / "0").mkdir()
                taken = machine.meet_memory(shape.all_bytes)
                printed.append({"side": "new_memory", "round": round, "seconds": [taken]})
                machine.meet_memory(MET_TIMES * shape.all_bytes)
                started = time.monotonic()
                for line in self.job(shape, memory, scratch, [self.program, "restart", *words], settings):
                    if line["side"] == "restart":
                        line.update(job=[at - started for at in line["restored"]], round=round)
                        line["start_up"] = [at - started for at in line["begun"]]
                    elif line["round"] >= 0:
                        line["round"] = round
                    printed.append(line)
        return results.restart_rows(case, mpi.Measured(printed))

    def jacobi(self, case, shape):
        nx, ny, nz = GRID
        grid = ["--nx", nx, "--ny", ny, "--nz", max(nz // self.o.part, shape.ranks), "--steps", JACOBI_STEPS]
        runs = {"none": [], "idle": [], "saving": []}
        portions = Shape(shape.ranks, shape.nodes, shape.bytes * COPIES * (KEEP + 1))
        bare = self.measure(portions, "portions", in_memory(), [f"rounds={self.o.rounds}"])
        for round in range(self.o.rounds):
            for side in list(runs)[round % 3 :] + list(runs)[: round % 3]:
                with self.nodes(shape) as (memory, scratch):
                    every = JACOBI_EVERY if side == "saving" else 10 * JACOBI_STEPS
                    saving = ["--no-checkpoint"] if side == "none" else ["--space", scratch / "space", "--every", every]
                    words = [self.folder / "jacobi3d", "--dem", self.folder / "dem", "--progress", JACOBI_STEPS, *grid]
                    words += saving
                    [clocks] = self.job(shape, memory, scratch, words, in_memory())
                wanted = CHECKPOINTS if side == "saving" else 0
                if any(count != wanted for count in clocks["checkpoints"]):
                    raise SystemExit(f"{case}, {side}: not {wanted} checkpoints, but {clocks['checkpoints']}")
                runs[side].append(clocks)
        return results.run_rows(case, runs, CHECKPOINTS, bare.of("portions"))

    def size(self, case, shape):
        """Five ways to save; a slower way gets fewer rounds. Ways that this machine cannot run are reported and left
        out."""
        measured = {}
        for way in results.WAYS:
            try:
                measured[way] = self.way(shape, way)
            except slow.Lacking as why:
                print(f"{case}: {way} is left out: {why}", flush=True)
        each = shape.bytes / MB
        floors = {
            results.SHARED: shape.all_bytes / MB / SHARED_MB_PER_S,
            results.DISK: each / DISK_MB_PER_S,
            results.MEMORY_SLOW: 8 * each / LINK_MBIT,
            results.DISK_DOUBLE: COPIES * each / DISK_MB_PER_S,
        }
        return results.size_rows(case, measured, floors)

    def way(self, shape, way):
        often, once = [f"rounds={self.o.rounds}"], ["rounds=1", "warm_ups=0"]
        if way == results.MEMORY:
            return self.measure(shape, "alone", in_memory(), often)
        with tempfile.TemporaryDirectory(prefix="levels-", dir=self.o.scratch) as scratch:
            if way == results.MEMORY_SLOW:
                with slow.links(scratch, shape.nodes, shape.ranks // shape.nodes, LINK_MBIT) as (before, options):
                    return self.measure(shape, "alone", in_memory(), once, before=before, options=options)
            count, mb_per_s = (1, SHARED_MB_PER_S) if way == results.SHARED else (shape.nodes, DISK_MB_PER_S)
            room = (KEEP + 3) * COPIES * shape.all_bytes // count + 256 * MIB
            with slow.disks(scratch, count, room, mb_per_s) as (points, before):
                if way == results.SHARED:
                    return self.measure(shape, "alone", {"MAINSTAY_PFS_EVERY": 1}, once, points[0], before=before)
                copies = COPIES if way == results.DISK_DOUBLE else 1
                settings = {"LEVELS_DISKS": str(points[0])[:-1], "MAINSTAY_DISK_COPIES": copies}
                return self.measure(shape, "alone", settings, once, before=before)

    def cases(self):
        """For each case: its name, its shape, the function to call with both, and the multiple of the data that must
        fit in memory."""
        o = self.o
        spaces = COPIES * (KEEP + 2) + 1
        for nodes in o.nodes:
            shapes = {
                f"{WHOLE_MB * MB // o.part // MB} MB on {ranks} ranks, {nodes} nodes":
                    Shape(ranks, nodes, WHOLE_MB * MB // o.part // ranks // 8 * 8) for ranks in o.ranks
            }  # fmt: skip
            large = Shape(4, nodes, LARGE_MIB * MIB // o.part)
            name_of_large = f"4 x {large.bytes // MIB} MiB, {nodes} nodes"
            for name, shape in {**shapes, name_of_large: large}.items():
                yield f"{name}, background", shape, self.background, spaces + 3
                yield f"{name}, blocking", shape, self.blocking, spaces + 3
            for name, shape in shapes.items():
                yield f"jacobi3d, {name}", shape, self.jacobi, spaces + 2
            for feeds, fed in enumerate(("", ", fed on", ", fed on twice")):
                measure = lambda case, shape, feeds=feeds: self.memory(case, shape, feeds)
                yield f"{name_of_large}, memory{fed}", large, measure, spaces + 2 + COPIES
            for seats in ("spare", "left"):
                measure = lambda case, shape, seats=seats: self.restart(case, shape, seats)
                yield f"{name_of_large}, restart, {seats}", large, measure, spaces + 3
        for mb in o.sizes:
            shape = Shape(SIZE_RANKS, SIZE_RANKS, mb * MB // o.part // SIZE_RANKS // 8 * 8)
            yield f"size, {shape.all_bytes / MB:.0f} MB", shape, self.size, spaces + 1


def in_memory(**more):
    return {"MAINSTAY_MEMORY": "auto", "MAINSTAY_MEMORY_COPIES": COPIES, **more}


def free_memory():
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return min(int(lines["MemAvailable"].split()[0]) << 10, shutil.disk_usage(SHARED_MEMORY).free)


def main():
    o = options()
    # Namespaces and mounts end with this process, however it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    o.scratch.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.scratch), flush=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        bench = Bench(o, folder)
        mpi.build(HERE / "levels", bench.program)
        clocked.build("jacobi3d", bench.folder)
        dem.write(bench.folder / "dem")
        for case, shape, measure, times in bench.cases():
            if not any(part in case for part in o.only):
                continue
            if (needed := times * shape.all_bytes) > (free := free_memory()):
                why = f"it needs {needed / 2**30:.1f} GiB of memory ({free / 2**30:.1f} free)"
                print(f"\n{case}: left out, {why}", flush=True)
                continue
            of_case = measure(case, shape)
            print(rows.table(of_case), flush=True)
            made += of_case
            rows.write(o.out / "levels.json", made)  # what ends it later leaves this
    rows.end(o.out / "levels.json", made)


if __name__ == "__main__":
    main()
