"""SIGKILL in every phase from t1 to t3: the newest complete revision comes back, whole, every time.

One space is used through all kills and restarts of a test. Each job verifies its restored state, goes on from there,
and is killed in turn. The board shows after the death in which phase the kill hit.
"""

import collections
import contextlib
import mmap
import os
import random
import re
import select
import signal
import struct
import time

import pytest
from crashes import MpiCrashed
from job import Job
from limits import LIMIT_S
from mpi import MPIS
from programs import PYTHON, build_c
from ways import WAYS, in_turn, rarely, spread

RANKS = 4
STEPS = 400  # of a job that nothing ends: far more than it takes to hit any phase
WATCH_S = 120  # for a revision of the phase's turn to come
PATIENCE = (
    20  # revisions without the phase: one that frees old roots need not come while there is room beside what is kept
)
LOOK_S = 0.0003  # between two looks at the board
ROUNDS = 4  # tries for a phase that was missed: the rank is stopped in it

# The same lists as in c/board.h.
PROGRAM = ["starting", "computing", "settling the last", "communication", "staging", "waiting", "writing pieces"]
CALLS = PROGRAM[:-1]  # of a program that writes no pieces
IO = ["nothing to do", "freeing old roots", "data write", "sync of the data", "slot write", "sync of the slot"]
BY_PROGRAM = [("program", phase) for phase in CALLS[1:]]
BY_IO = [("io", phase) for phase in IO[1:]]
OTHERS = {1: ("all ranks", "all ranks", "mpiexec"), 2: ("all ranks", "mpiexec")}  # by keep: killed beside one rank
RESTORED = re.compile(r"restored (\d+) of run (\d+) step (\d+)$")


def victim_in_c(mpi):
    return [build_c(["victim.c", "pieces.c", "phases.c", "signals.c"], "victim", mpi=mpi)]


def victim_in_python(mpi):
    # Only the ranks get the preload: mpiexec writes and syncs files of its own. env becomes Python.
    phases = build_c(["phases.c"], "phases.so", "-shared", "-fPIC", mpi=mpi)
    return ["env", f"LD_PRELOAD={phases}", mpi.command("python"), PYTHON / "victim.py"]


# The killed program in each language: a function from the MPI to the words that start it. It takes the arguments of
# c/victim.c and writes to the board in the same way.
VICTIMS = {"c": victim_in_c, "python": victim_in_python}


@pytest.fixture(scope="session", params=["c", *rarely("python")])
def victim(request, mpi):
    return VICTIMS[request.param](mpi)


@pytest.fixture
def folder(scratch, monkeypatch):
    """The place of a space. If Open MPI's mpiexec is killed, it leaves segments of shared memory here, not in
    /dev/shm."""
    monkeypatch.setenv("OMPI_MCA_btl_sm_backing_directory", str(scratch))
    return scratch


class Board:
    """The phase of each rank, also after its death."""

    CELL = struct.Struct("@IIQIII36x")

    def __init__(self, path):
        path.write_bytes(bytes(16 * self.CELL.size))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def read(self, rank):
        """Phase of the program, phase of the I/O, last revision."""
        program, io, revision, *_ = self.CELL.unpack_from(self._map, rank * self.CELL.size)
        return PROGRAM[program], IO[io], revision

    def signalled(self, rank):
        """The phases, of the program and of the I/O, in which a signal came."""
        *_, program, io, _ = self.CELL.unpack_from(self._map, rank * self.CELL.size)
        hit = [phase for number, phase in enumerate(PROGRAM) if program >> number & 1]
        return hit + [phase for number, phase in enumerate(IO) if io >> number & 1]

    def writes(self, rank):
        """Writes to the space since the rank's first checkpoint began."""
        return self.CELL.unpack_from(self._map, rank * self.CELL.size)[-1]

    def clear(self):
        self._map[:] = bytes(len(self._map))


class VictimJob(Job):
    def kill(self, whom, rank):
        """Sends SIGKILL to `whom`, with `rank` among them, or to mpiexec alone; returns when `rank` is dead."""
        if whom == "mpiexec":
            self.process.kill()
        for other in self.victims(whom, rank):
            # mpiexec may have seen the first rank die and ended the others.
            with contextlib.suppress(ProcessLookupError):
                self.send(other, signal.SIGKILL)
        if not select.select([self._ranks[rank]], [], [], LIMIT_S)[0]:
            # Open MPI ends the ranks once mpiexec is gone. A rank that it leaves alive is its failure.
            failure = MpiCrashed if whom == "mpiexec" else AssertionError
            raise failure(f"rank {rank} outlived the kill of {whom}")

    def send(self, rank, number):
        signal.pidfd_send_signal(self._ranks[rank], number)

    def victims(self, whom, rank):
        one_lives = (rank + 1) % RANKS
        others = {"one rank": {rank}, "all ranks": set(range(RANKS)), "all but one": set(range(RANKS)) - {one_lives}}
        return others.get(whom, set())

    def hold_all(self, ranks):
        """Waits until the ranks exist, and holds them."""
        while len(self._ranks) < ranks:
            for pidfd in self._ranks.values():
                os.close(pidfd)
            self._ranks.clear()
            assert self.process.poll() is None and time.monotonic() < self.deadline, self.tail()
            time.sleep(LOOK_S)
            self._hold_ranks()

    def ranks_held(self):
        return len(self._ranks)


class Space:
    """One space, the jobs that run and die on it, and the promises of its checkpoints."""

    def __init__(self, victim, mpi, folder, keep, stage):
        self.victim, self.mpi, self.folder, self.keep, self.stage = victim, mpi, folder, keep, stage
        self.random = random.Random(f"{keep} {stage}")
        self.way = self.random.choice(WAYS)
        self.board = Board(folder / "board")
        self.acknowledged = folder / "acknowledged"
        self.newest = 0  # the highest revision that any rank can have begun
        self.run = 0
        self.died = collections.Counter()

    def job(self, steps):
        self.board.clear()
        self.run += 1
        command = [*self.victim, self.folder / "space", self.folder / "board", self.acknowledged,
                   self.run, self.keep, self.stage, steps]  # fmt: skip
        return VictimJob(RANKS, spread(self.way, command), self.folder, LIMIT_S, self.mpi)

    def restored(self, job):
        """Waits until the job has verified its restored revision; returns the revision."""
        for line in job.lines():
            if match := RESTORED.match(line):
                revision = int(match[1])
                assert revision <= self.newest, f"revision {revision} was never begun, {self.newest} was the last"
                assert int(match[2]) < self.run
                return revision
            assert not line.startswith("WRONG"), line
        raise AssertionError("the job restored nothing and ended:\n" + job.tail())

    def killed(self, whom, kind, phase, rank=None, surely=False):
        """A job restores, goes on, and is killed when one rank, or `rank`, is in `phase` or soon after. If the phase
        does not come, it is killed anyway."""
        rank, later = self.random.randrange(RANKS) if rank is None else rank, self.random.randrange(5)
        pause_s = 0 if surely else self.random.uniform(0, 0.004)
        with self.job(STEPS) as job:
            first = self.restored(job) + 1 + later
            self.watch(
                job, rank, phase, lambda program, io: phase == (program if kind == "program" else io), first, surely
            )
            time.sleep(pause_s)
            job.kill(whom, rank)
            for line in job.lines():
                # The other ranks may report the lost peer.
                assert not line.startswith("WRONG") or "GROUP_FAILED" in line, line
            status = job.wait()
            # If mpiexec was killed, the status of the job is that of the kill.
            assert status != 0, f"a job ended well without {whom}:\n{job.tail()}"
        program, io, _ = self.board.read(rank)
        self.died[whom, program, io] += 1
        self.note_newest()

    def note_newest(self):
        # A rank that died while saving may have used one number more than its last known one.
        self.newest = max(self.newest, *(self.board.read(rank)[2] + 1 for rank in range(RANKS)))

    def watch(self, job, rank, phase, is_there, first, holds=False):
        """Returns when `rank` is in `phase`, at revision `first` or later, or has not come to it for a long time. With
        `holds`, the rank stands still there."""
        # Checked here, because a job of few steps may have ended in order already.
        assert job.ranks_held() == RANKS, job.tail()
        deadline = time.monotonic() + WATCH_S
        while time.monotonic() < deadline and job.process.poll() is None:
            program, io, revision = self.board.read(rank)
            if revision >= first + PATIENCE:
                return
            if revision >= first and is_there(program, io):
                if not holds:
                    return
                job.send(rank, signal.SIGSTOP)
                time.sleep(LOOK_S)
                if is_there(*self.board.read(rank)[:2]):
                    return
                job.send(rank, signal.SIGCONT)  # it has passed
            time.sleep(LOOK_S)
        raise AssertionError(f"rank {rank} never came to {phase}:\n{job.tail()}")

    def ends_well(self):
        with self.job(steps=4) as job:
            self.restored(job)
            for _ in job.lines():
                pass
            assert job.wait() == 0 and job.output[-1] == "done", job.tail()
        self.note_newest()


def hit(died, kind, phase):
    return sum(n for (whom, program, io), n in died.items() if phase == (program if kind == "program" else io))


def missed(died, targets):
    return [target for target in targets if hit(died, *target) == 0]


def table(died, title):
    """Deaths by the phase of the program (down) and the phase of its revision (across)."""
    width = [max(len(name), 5) for name in IO]
    lines = [title, " " * 20 + "  ".join(IO) + "    all"]
    for program in CALLS[1:]:
        row = [sum(n for (_, p, i), n in died.items() if (p, i) == (program, io)) for io in IO]
        lines.append(f"{program:<18}  " + "  ".join(f"{n:>{w}}" for n, w in zip(row, width)) + f"  {sum(row):>5}")
    row = [hit(died, "io", io) for io in IO]
    lines.append(f"{'all':<18}  " + "  ".join(f"{n:>{w}}" for n, w in zip(row, width)) + f"  {sum(row):>5}")
    whom = collections.Counter()
    for (who, _, _), n in died.items():
        whom[who] += n
    return "\n".join([*lines, "killed: " + ", ".join(f"{who} {n}" for who, n in sorted(whom.items()))])


def kill_all_over(space, plan, capsys, surely=False):
    """Carries out the plan; the last job ends in order."""
    for kill in plan:
        space.killed(*kill, surely=surely)
    space.ends_well()
    with capsys.disabled():
        title = f"Where the kills hit, {space.mpi}, keep {space.keep}, stage {space.stage}:"
        print("\n" + table(space.died, title), flush=True)


@pytest.mark.parametrize(("victim", "mpi", "keep"), in_turn(list(VICTIMS), MPIS, [1, 2]), indirect=["victim", "mpi"])
def test_kills_in_every_phase(victim, mpi, folder, capsys, keep):
    """The rank stands still in its phase when it is killed. Some kills also hit all other ranks or mpiexec."""
    targets = BY_PROGRAM + BY_IO if keep == 1 else BY_IO
    space = Space(victim, mpi, folder, keep, "pool")
    plan = [("one rank", *target) for target in targets]
    plan += [(whom, *space.random.choice(targets)) for whom in OTHERS[keep]]
    space.random.shuffle(plan)
    kill_all_over(space, plan, capsys, surely=True)
    for _ in range(ROUNDS):
        if again := missed(space.died, targets):
            kill_all_over(space, [("one rank", *target) for target in again], capsys, surely=True)
    assert not missed(space.died, targets)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("keep", "stage", "targets"),
    [(1, "pool", BY_PROGRAM + BY_IO), (2, "pool", BY_PROGRAM + BY_IO), (1, "direct", BY_IO)],
)
def test_seventy_seeded_kills(victim, mpi, folder, capsys, keep, stage, targets):
    space = Space(victim, mpi, folder, keep, stage)
    whom = space.random.choices(["one rank", "all ranks", "mpiexec"], [8, 1, 1], k=70)
    kill_all_over(space, [(who, *space.random.choice(targets)) for who in whom], capsys)
    assert not missed(space.died, targets)
