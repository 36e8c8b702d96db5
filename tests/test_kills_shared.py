"""SIGKILL of ranks that share a small pool, during each use of its chunks, with each stage.

Four ranks write pieces and regions through a pool with the fewest possible chunks, so they wait for each other's
chunks. With Open MPI's fault tolerance the survivors go on: each completes its own part of the last revision, and ends.
The next job verifies every byte that it restores, and the directory of pools has no rest of the dead job.
"""

import collections
import dataclasses
import itertools
import re
import tempfile
import time
from pathlib import Path

import pytest
from limits import LIMIT_S
from mpi import MPICH, OPENMPI, SHARED_MEMORY
from pool import STATES, Pool
from test_kills import RANKS, ROUNDS, STEPS, Space, folder, victim_in_c  # noqa: F401

pytestmark = pytest.mark.campaign  # when ranks are killed is left to chance

SURVIVING = dataclasses.replace(OPENMPI, oversubscribe=("--with-ft", "ulfm", *OPENMPI.oversubscribe))
SURVIVED = re.compile(r"survived: rank (\d+), (.*)$")
STARTING_S = 0.5  # an opening and a restore, at most
# Completed from the pool if the job dies after t2.
SALVAGED = ("pool", "node")

RUNNING = ("computing", "settling the last", "waiting")
# By the phase of the program and the phase of its revision.
PHASES = {
    "starting": lambda program, io: program == "starting",
    "between begin and t2": lambda program, io: program == "writing pieces",
    "at t2": lambda program, io: program == "staging",
    "between t2 and t3": lambda program, io: program in RUNNING and io != "nothing to do",
    "after t3": lambda program, io: program == "computing" and io == "nothing to do",
}
# States of a dying rank's chunks. If there is a pool, each state must be hit, too.
CHUNKS = {"filling": {"filling"}, "full or written": {"full", "written"}, "writing": {"writing"}}
# A rank that dies in MPI_Init ends the others, or lets them wait for ever: kill only all at once.
PLAN = [
    ("starting", "all ranks"), ("between begin and t2", "one rank"), ("at t2", "all but one"),
    ("between t2 and t3", "all ranks"), ("after t3", "one rank"), ("between t2 and t3", "one rank"),
    ("between begin and t2", "all but one"), ("at t2", "all ranks"), ("after t3", "all ranks"),
    ("between t2 and t3", "all but one"),
]  # fmt: skip


@pytest.fixture
def pools(monkeypatch):
    """A directory of pools in shared memory. It must be empty at the end."""
    monkeypatch.setenv("VICTIM_SHARES", "1")
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="mainstay-test-") as folder:
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", folder)
        yield Path(folder)


class SharedSpace(Space):
    """One space, and a directory of pools."""

    def __init__(self, mpi, folder, pools, stage):  # noqa: F811
        super().__init__(victim_in_c(mpi), mpi, folder, 1, stage)
        self.pools = pools
        # One node: all ranks share one pool.
        self.way = {"per": self.random.choice(["app", "node", "rank"]), "nodes": 1}
        # Without I/O threads t2 is t3.
        self.plan = [(phase, whom) for phase, whom in PLAN if stage != "direct" or phase != "between t2 and t3"]
        self.starting_s = STARTING_S  # halved whenever a job was past it
        self.promised = 0  # of the stages that are salvaged: what all ranks had handed over
        self.left = set()  # files of the pools of dead jobs
        self.chunks = collections.Counter()  # states in which the dead held them

    def restored(self, job):
        revision = super().restored(job)
        assert revision >= self.promised, f"revision {revision} came back, all ranks were past t2 of {self.promised}"
        assert not (stay := self.left & set(self.pools.iterdir())), f"left by a dead job: {stay}"
        return revision

    def killed_in(self, phase, whom, surely=False):
        """A job restores, goes on, and is killed when one rank is in `phase`, or soon after. Its survivors end well."""
        rank, later = self.random.randrange(RANKS), self.random.randrange(4)
        with self.job(STEPS) as job:
            if phase == "starting":
                job.hold_all(RANKS)
                pause_s = 0 if surely else self.random.uniform(0, self.starting_s)
            elif phase in CHUNKS:
                first = self.restored(job) + 1 + later
                # These phases are too short to be hit.
                self.watch(
                    job, rank, phase, lambda *_: CHUNKS[phase].intersection(self.held_by(rank)), first, holds=True
                )
                pause_s = 0
            else:
                first = self.restored(job) + 1 + later
                self.watch(job, rank, phase, PHASES[phase], first, holds=surely)
                pause_s = 0 if surely else self.random.uniform(0, 0.004)
            time.sleep(pause_s)
            job.kill(whom, rank)
            job.deadline = time.monotonic() + LIMIT_S  # for survivors to end
            self.note_chunks(rank)
            said = list(job.lines())
            job.wait()
        self.note_death(rank, whom)
        if phase == "starting" and (whom, phase) not in self.died:
            self.starting_s /= 2
        wrong = [line for line in said if line.startswith("WRONG") and "GROUP_FAILED" not in line]
        assert not wrong, wrong
        if self.mpi is SURVIVING:
            survived = {int(match[1]): match[2] for match in map(SURVIVED.match, said) if match}
            # On a busy machine a rank may see others die, and end well before its own kill comes.
            assert survived.keys() >= set(range(RANKS)) - job.victims(whom, rank), job.tail()
            assert set(survived.values()) <= {"durable"}, job.tail()

    def note_chunks(self, rank):
        """Notes the chunks of the dead rank, before others notice its death."""
        self.chunks.update(self.held_by(rank))

    def held_by(self, rank):
        """The states of its chunks."""
        pools = [Pool(path) for path in self.pools.iterdir() if "." not in path.name]
        return [state for pool in pools for state, member in pool.held() if member == rank]

    def note_death(self, rank, whom):
        program, io, _ = self.board.read(rank)
        self.died[whom, next((phase for phase, is_there in PHASES.items() if is_there(program, io)), "else")] += 1
        self.note_newest()
        self.left = set(self.pools.iterdir())
        if self.stage in SALVAGED:
            self.promised = max(self.promised, min(self.board.read(rank)[2] for rank in range(RANKS)))

    def missed(self):
        hit = {phase for _, phase in self.died}
        missed = [(phase, whom) for phase, whom in self.plan[:5] if phase not in hit]
        if self.stage in SALVAGED:
            missed += [(name, "one rank") for name, states in CHUNKS.items() if not states & self.chunks.keys()]
        return missed

    def told(self):
        """Deaths by phase (down) and by the killed processes (across)."""
        whom = sorted({who for who, _ in self.died})
        lines = [f"Where the kills hit, {self.mpi}, stage {self.stage}:", " " * 22 + "  ".join(whom)]
        for phase in [*PHASES, "else"]:
            lines.append(f"{phase:<20}" + "  ".join(f"{self.died[who, phase]:>{len(who)}}" for who in whom))
        chunks = ", ".join(f"{state} {self.chunks[state]}" for state in STATES[1:])
        return "\n".join([*lines, f"chunks that a dead rank held: {chunks}"])


def kill_all_over(space, count, capsys):
    """Carries out the plan, again and again, in any order; the last job ends in order."""
    kills = list(itertools.islice(itertools.cycle(space.plan), count))
    space.random.shuffle(kills)
    for kill in kills:
        space.killed_in(*kill)
    for _ in range(ROUNDS):
        for kill in space.missed():
            space.killed_in(*kill, surely=True)
    space.ends_well()
    with capsys.disabled():
        print("\n" + space.told(), flush=True)
    assert not list(space.pools.iterdir()), "a job that ended in order leaves nothing"
    assert not space.missed()


@pytest.mark.parametrize(
    ("mpi", "stage", "count"),
    [
        (SURVIVING, "pool", 8),
        (SURVIVING, "node", 7),
        (MPICH, "pool", 5),
        (SURVIVING, "rank", 5),
        (SURVIVING, "direct", 5),
    ],
    ids=str,
)
def test_thirty_kills(mpi, stage, count, folder, pools, capsys):  # noqa: F811
    kill_all_over(SharedSpace(mpi, folder, pools, stage), count, capsys)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("mpi", "stage", "count"),
    [(SURVIVING, "pool", 150), (SURVIVING, "node", 150), (MPICH, "pool", 60), (MPICH, "node", 60),
     (SURVIVING, "rank", 40), (SURVIVING, "direct", 40)],
    ids=str,
)  # fmt: skip
def test_five_hundred_kills(mpi, stage, count, folder, pools, capsys):  # noqa: F811
    kill_all_over(SharedSpace(mpi, folder, pools, stage), count, capsys)
