"""The cost of a failure for a job that goes on without a restart, and the cost of being ready for one.

make bench NAME=recovery        writes bench/out/recovery.json; QUICK=1: small, within a minute or so
"""

import filecmp
import random
import signal
import struct
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from harness import arguments, machine, mpi, rows
from recovery import results
from run import clocked

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(clocked.EXAMPLES / "jacobi3d"))

import dem  # noqa: E402
import library  # noqa: E402

MAINSTAY = HERE.parent / "target" / "release" / "mainstay"
SHARED_MEMORY = Path("/dev/shm")
SIDE = 108  # cells of a rank along each side: 10 MB
STEPS, EVERY, KILL_AT = 36, 10, 24
HEARTBEAT_S = 1.0
STARTS = 6  # tries of a job, of which Open MPI 5.0.11 with its heartbeat on can crash in MPI_Init
SPAWN_ROUNDS = 3
LOST, LOST_RANKS, LOST_APART, LOST_EVERY = 10, 16, 56, 20  # so many steps between two failures, and two checkpoints
CALM_CHECKPOINTS = 3
LIMIT_S, START_LIMIT_S = 300, 60  # of one job, and of one that can be tried again
QUICK = {"side": 24, "rounds": 1, "ranks": (4,), "lost": 2, "calm_seconds": 1, "heartbeat": 5.0}


def options():
    quick = QUICK if arguments.QUICK else {}
    parser = arguments.Parser(__doc__, "recovery.json", has_scratch=False)
    parser.add_argument("--side", type=int, default=quick.get("side", SIDE), help="cells of a rank along each side")
    parser.add_argument("--rounds", type=int, default=quick.get("rounds", 7))
    parser.add_argument("--ranks", type=int, nargs="+", default=quick.get("ranks", (4, 8, 16)))
    heartbeat = quick.get("heartbeat", HEARTBEAT_S)
    parser.add_argument(
        "--heartbeat", type=float, default=heartbeat, help="seconds until a rank without a sign is dead"
    )
    parser.add_argument("--lost", type=int, default=quick.get("lost", LOST), help="failures one after another")
    parser.add_argument(
        "--calm-seconds", type=float, default=quick.get("calm_seconds", 20), help="of a run without any"
    )
    parser.add_argument("--calm-rounds", type=int, default=2 if quick else 10)
    parser.add_argument("--only", nargs="+", default=[""], help="only cases with one of these in their name")
    return parser.parse_args()


class Bench:
    """Jobs of jacobi3d, each process on a node of its own."""

    def __init__(self, o, folder):
        self.o, self.folder = o, Path(folder)
        self.within_us = o.side**3 // 100  # of a step
        jacobi = [*sorted((clocked.EXAMPLES / "jacobi3d").glob("*.c")), HERE / "recovery" / "clock.c"]
        wrapped = [f"-Wl,--wrap=mainstay_{call}" for call in ("due", "recover", "restore", "checkpoint")]
        library.build(self.folder / "killed", jacobi, "-O3", "-ffp-contract=off", "-lm", *wrapped)
        clocked.build("jacobi3d", self.folder)
        library.build(self.folder / "spawn", [HERE / "recovery" / "spawn.c"], "-O2")
        dem.write(self.folder / "dem")

    @contextmanager
    def nodes(self):
        with (
            tempfile.TemporaryDirectory(prefix="mainstay-bench-recovery-", dir=SHARED_MEMORY) as memory,
            tempfile.TemporaryDirectory(prefix="recovery-", dir=self.folder) as scratch,
        ):
            yield Path(memory), Path(scratch)

    def words(self, program, ranks, steps):
        grid = ["--nx", self.o.side, "--ny", self.o.side, "--nz", self.o.side * ranks]
        return [self.folder / program, "--dem", self.folder / "dem", *grid, "--steps", steps, "--progress", steps]

    def killed(self, way, *job, **variables):
        """Runs a job and kills ranks at the given places. Returns its lines and the time of each death. With the
        heartbeat on, a job that ends before its first death is tried again."""
        for left in reversed(range(STARTS if way == "stopped" else 1)):
            with self.nodes() as (memory, scratch):
                try:
                    return self.killed_in(memory, scratch, way, *job, **variables)
                except (SystemExit, subprocess.TimeoutExpired):
                    if not left or any(memory.glob("death-*")):
                        raise

    def killed_in(self, memory, scratch, way, ranks, deaths, steps=STEPS, every=EVERY, more=(), **variables):
        set_to = {
            "MAINSTAY_MEMORY": "auto",
            "MAINSTAY_PFS_EVERY": 0,
            "RECOVERY_FOLDER": memory,
            "RECOVERY_DEATHS": " ".join(deaths),
            **variables,
        }
        saving = ["--space", scratch / "space", "--every", every]
        words = [*self.words("killed", ranks, steps), *saving, *more]
        # Set for the launcher, so that processes that start later also have them.
        before = ["env", *(f"{name}={value}" for name, value in set_to.items())]
        heartbeat = [f"{self.o.heartbeat}s"] if way == "stopped" else []
        limit_s = START_LIMIT_S if way == "stopped" else LIMIT_S
        lines = mpi.run(
            ranks, words, scratch, limit_s, [*before, MAINSTAY, "run", *results.WAYS[way], *heartbeat, "--"]
        )
        marks = sorted(memory.glob("death-*"))
        if len(marks) != len(deaths):
            raise SystemExit(f"{way}: of {len(deaths)} ranks that were to die, {len(marks)} did")
        return lines, sorted(struct.unpack("d", mark.read_bytes())[0] for mark in marks), told(scratch / "space")

    def failure(self, case, ranks):
        """One rank dies. Measures each way in turns; a spawned replacement is compared with the time of MPI alone."""
        found, spawns = {way: [] for way in results.WAYS}, []
        chance = random.Random(ranks)
        for round in range(self.o.rounds):
            for way in list(found)[round % len(found) :] + list(found)[: round % len(found)]:
                signal_word = "stop" if way == "stopped" else "kill"
                death = f"{signal_word}:{chance.randrange(1, ranks)}:{KILL_AT}:{chance.randrange(self.within_us)}"
                lines, [died], told = self.killed(way, ranks, [death])
                found[way].append(results.parts(lines, died, told))
            spawns += self.spawn(ranks)
        return results.failure_rows(case, found, spawns, ranks, self.o.heartbeat)

    def spawn(self, ranks):
        """A bare MPI_Comm_spawn of one process, in a job that survives failures."""
        with self.nodes() as (_, scratch):
            options = ("--map-by", ":OVERSUBSCRIBE", "--with-ft", "ulfm")
            [line] = mpi.run(ranks, [self.folder / "spawn"], scratch, LIMIT_S, options=options)
            return [line["seconds"]]

    def lost(self, case, ranks):
        """The ranks die one after another, each halfway between two moments at which all copies are complete."""
        o, chance = self.o, random.Random(1)
        steps = LOST_APART * (o.lost + 1)
        deaths = [
            f"kill:{chance.randrange(ranks - o.lost)}:{LOST_APART * number + chance.randrange(LOST_EVERY, LOST_APART)}"
            f":{chance.randrange(self.within_us)}"
            for number in range(o.lost)
        ]
        ends = {}
        for name, of_it in (("calm", []), ("disturbed", deaths)):
            out = self.folder / name
            lines, died, _ = self.killed("shrunk", ranks, of_it, steps, LOST_EVERY, ["--out", out], RECOVERY_WHOLE=1)
            ends[name] = (lines, died)
        if not filecmp.cmp(self.folder / "calm", self.folder / "disturbed", shallow=False):
            raise SystemExit(f"{case}: another result than without failures")
        return results.lost_rows(case, ends)

    def calm(self, case, ranks):
        """No rank dies: each side is compared with plain MPI, in turns."""
        steps = self.calm_steps(ranks)
        runs = {"none": [], "ready": []}
        for round in range(self.o.calm_rounds):
            for side in sorted(runs, reverse=round % 2 == 0):
                runs[side].append(self.calm_run(side, ranks, steps))
        return results.calm_rows(case, runs)

    def calm_run(self, side, ranks, steps):
        with self.nodes() as (memory, scratch):
            every = (steps + 1) // (CALM_CHECKPOINTS + 1)
            saving = ["--no-checkpoint"] if side == "none" else ["--space", scratch / "space", "--every", every]
            for node in range(ranks + 1):
                (memory / str(node)).mkdir()
            settings = ["MAINSTAY_MEMORY=auto", "MAINSTAY_PFS_EVERY=0", f"LEVELS_NODES={memory}"]
            node = ["env", *settings, HERE / "levels" / "node.sh", ranks]
            before = [] if side == "none" else [MAINSTAY, "run", *results.WAYS["spawned"], "--"]
            [clocks] = mpi.run(ranks, [*node, *self.words("jacobi3d", ranks, steps), *saving], scratch, LIMIT_S, before)
            if any(count != (0 if side == "none" else CALM_CHECKPOINTS) for count in clocks["checkpoints"]):
                raise SystemExit(f"{side}: {clocks['checkpoints']} checkpoints")
            return clocks

    def calm_steps(self, ranks):
        intervals, tried, took = CALM_CHECKPOINTS + 1, 4, 0
        while took < self.o.calm_seconds / 4:
            tried *= 4
            took = max(self.calm_run("none", ranks, tried)["run"])
        return max(2, round(self.o.calm_seconds / took * tried / intervals)) * intervals - 1

    def cases(self):
        for ranks in self.o.ranks:
            yield f"a rank of {ranks} fails", lambda case, ranks=ranks: self.failure(case, ranks)
        most = max(self.o.ranks) if self.o.lost < LOST else LOST_RANKS
        yield f"{self.o.lost} ranks of {most} fail", lambda case: self.lost(case, most)
        yield "none of 4 ranks fails", lambda case: self.calm(case, 4)


def told(space):
    """The times of the parts of the last recovery, from the records of the job."""
    return results.told_by(subprocess.run([MAINSTAY, "status", "--json", space], capture_output=True, text=True))


def main():
    o = options()
    # Running jobs end with this process, however it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    o.out.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.out), flush=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        bench = Bench(o, folder)
        for case, measure in bench.cases():
            if not any(part in case for part in o.only):
                continue
            of_case = measure(case)
            print(rows.table([row for row in of_case if not row["case"].endswith(results.EACH)]), flush=True)
            made += of_case
            rows.write(o.out / "recovery.json", made)  # what ends it later leaves this
    rows.end(o.out / "recovery.json", made)


if __name__ == "__main__":
    main()
