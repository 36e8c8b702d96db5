"""A job that saves itself again and again, made to be killed: tests/c/victim.c in Python.

    victim.py SPACE BOARD ACKNOWLEDGED RUN KEEP STAGE STEPS

Every byte that it saves follows from (run, step, rank), so a restore that mixes ranks, steps or runs is visible. It
checks each restore against the promise of the earlier runs: the last line that one wrote to the file ACKNOWLEDGED after
wait() had returned. tests/c/phases.c, preloaded, sees the engine's writes and syncs.
"""

import ctypes
import mmap
import os
import re
import sys

import mainstay
import numpy
from mpi4py import MPI

WORDS, ODD = 16 << 17, 1237  # 16 MiB, and a region that shares its last block
STRETCH_US = 2000
RANK = MPI.COMM_WORLD.rank

# As in tests/c/board.h.
STARTING, COMPUTING, SETTLING, COMMUNICATION, STAGING, WAITING = range(6)
CELLS = 16


class Cell(ctypes.Structure):
    _fields_ = [("program", ctypes.c_uint32), ("io", ctypes.c_uint32), ("revision", ctypes.c_uint64),
                ("rest", ctypes.c_char * 48)]  # fmt: skip


PHASES = ctypes.CDLL(os.environ["LD_PRELOAD"])


def map_board(path):
    """This rank's cell, which also gets the phases of the I/O."""
    with open(path, "r+b") as file:
        cells = (Cell * CELLS).from_buffer(mmap.mmap(file.fileno(), CELLS * ctypes.sizeof(Cell)))
    ctypes.c_void_p.in_dll(PHASES, "board").value = ctypes.addressof(cells[RANK])
    return cells[RANK]


def wrong(what):
    print(f"WRONG: rank {RANK}: {what}")
    MPI.COMM_WORLD.Abort(9)


class Watched(MPI.Intracomm):
    """Counts on a single all-reduce in the program, the one at t1. A session duplicates such a communicator as one."""

    def Iallreduce(self, *given):
        if board.program != SETTLING:
            return super().Iallreduce(*given)
        board.program = COMMUNICATION
        PHASES.stretch(STRETCH_US)
        return AtT1(super().Iallreduce(*given))


class AtT1:
    """The request of that all-reduce."""

    def __init__(self, request):
        self.request = request

    def Test(self, *given):
        done = self.request.Test(*given)
        if done:
            PHASES.stretch(STRETCH_US)
            PHASES.phases_begin()  # what was on its way before has been settled
            board.program = STAGING
        return done


class State:
    """The saved state. All numbers wrap around, as in C."""

    def __init__(self):
        self.origin = numpy.zeros(2, "u8")  # run and step
        self.field, self.odd = numpy.zeros(WORDS, "u8"), numpy.zeros(ODD, "u8")
        self._products = [numpy.arange(WORDS, dtype="u8"), ~numpy.arange(ODD, dtype="u8")]
        for products in self._products:
            products *= self._FACTOR
        self._shifted = numpy.empty(WORDS, "u8")

    _FACTOR = numpy.uint64(0x9E3779B97F4A7C15)

    def compute(self):
        """Fills both for the run and the step of `origin`."""
        run, step = map(int, self.origin)
        start = (run << 48 ^ step << 28 ^ RANK << 24) * int(self._FACTOR) % 2**64
        for words, products in zip((self.field, self.odd), self._products):
            shifted = self._shifted[: len(words)]
            numpy.add(products, numpy.uint64(start), out=words)
            numpy.right_shift(words, numpy.uint64(29), out=shifted)
            words ^= shifted

    def check(self):
        got = self.field.copy(), self.odd.copy()
        self.compute()
        for name, words, expected in zip(("", "odd "), got, (self.field, self.odd)):
            if (differ := words != expected).any():
                wrong(f"{name}word {differ.argmax()} is not of run {self.origin[0]}, step {self.origin[1]}")


def judge(restored, state, acknowledged):
    """The restored data must be one revision on all ranks, and not older than the last acknowledged one."""
    revision = restored.revision if restored else 0
    # A line that was cut off by a kill does not count.
    lines = re.findall(r"^(\d+) (\d+) (\d+)\n", acknowledged, re.M)
    promised, *origin = map(int, lines[-1] if lines else (0, 0, 0))
    if restored and restored.skipped:
        wrong(f"passed over {restored.skipped}")
    if revision < promised:
        wrong(f"revision {revision} came back, {promised} was acknowledged")
    if revision == promised and origin != state.origin.tolist():
        wrong(f"revision {revision} is of another run or step")
    if revision:
        state.check()
    mine = [revision, *state.origin.tolist()]
    for rank, other in enumerate(MPI.COMM_WORLD.allgather(mine)):
        if other != mine:
            wrong(f"rank {rank} has revision {other[0]}, this one {revision}")
    if RANK == 0:
        print("restored {} of run {} step {}".format(*mine))


def work(session, state, steps, acknowledged):
    last = int(state.origin[1]) + steps
    while state.origin[1] < last:
        board.program = COMPUTING
        state.origin[1] += 1
        state.compute()
        PHASES.stretch(STRETCH_US)
        board.program = SETTLING
        revision = session.checkpoint()
        board.revision = revision
        if state.origin[1] % 2 == 0:
            board.program = WAITING
            session.wait()
            if RANK == 0:
                print(revision, *state.origin, file=acknowledged, flush=True)


def main(space, acknowledged, run, keep, stage, steps):
    state = State()
    with open(acknowledged, "a+") as file, mainstay.open(
        space, Watched(MPI.COMM_WORLD), keep=keep, stage=stage,
        pool_bytes=2 << 20,  # far smaller than the shard, so that staging waits for the I/O threads
        chunk_bytes=256 << 10,
    ) as session:  # fmt: skip
        session.protect("origin", state.origin)
        session.protect("field", state.field)
        session.protect("odd", state.odd)
        restored = session.restore()
        file.seek(0)
        judge(restored, state, file.read())
        state.origin[0] = run
        work(session, state, steps, file)
    if RANK == 0:
        print("done")


sys.stdout.reconfigure(line_buffering=True, write_through=False)  # a line in one piece: those of the ranks do not mix
space, board_path, acknowledged, run, keep, stage, steps = sys.argv[1:]
board = map_board(board_path)
try:
    main(space, acknowledged, int(run), int(keep), stage, int(steps))
except mainstay.Error as error:
    # The names of the statuses in C.
    wrong(re.sub("(?<!^)(?=[A-Z])", "_", error.kind).upper() + f": {error}")
