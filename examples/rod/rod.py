"""Heat in a rod that is cut into pieces, objects that move: a job that loses ranks goes on with those that are left.

mpiexec -n 4 python rod.py [--space DIR] [--steps N] [--crash RANK@STEP[+MICROSECONDS]]...
"""

import argparse
import os
import signal
import sys
import zlib
from dataclasses import dataclass, field

import mainstay
import numpy
from mainstay import objects
from mpi4py import MPI

PIECES, CELLS, HEAT = 40, 500, 1
born = MPI.COMM_WORLD.rank if MPI.Comm.Get_parent() == MPI.COMM_NULL else None


# ANCHOR: piece
@dataclass
class Piece:
    """Its fields are saved, and sent along where it moves."""

    number: int
    cells: numpy.ndarray = field(default_factory=lambda: numpy.zeros(CELLS))

    def __post_init__(self):
        self.ends, self.has_shown = {}, False  # only within a step

    def neighbours(self):
        return {side: at for side, at in ((0, self.number - 1), (1, self.number + 1)) if 0 <= at < PIECES}

    @objects.handler
    def show(self):
        for side, other in self.neighbours().items():
            rod.send(other, "see", 1 - side, float(self.cells[-side]))
        self.has_shown = True
        self.relax()

    @objects.handler
    def see(self, side, value):
        self.ends[side] = value
        self.relax()

    def relax(self):
        """Computes once all its inputs have arrived, in any order. The rod is hot at one end, and cold at the other."""
        if not self.has_shown or len(self.ends) < len(self.neighbours()):
            return
        wide = numpy.concatenate([[self.ends.get(0, 1.0)], self.cells, [self.ends.get(1, 0.0)]])
        self.cells = 0.5 * self.cells + 0.25 * (wide[:-2] + wide[2:])
        self.ends, self.has_shown = {}, False

    @objects.handler
    def tell(self):
        here.contribute(HEAT, [self.cells.sum(), zlib.crc32(self.cells)])


# ANCHOR_END: piece


def crash_when_told(o, step):
    for crash in o.crash:
        rank, _, moment = crash.partition("@")
        at, _, after_us = moment.partition("+")
        if (int(rank), int(at)) != (born, step):
            continue
        if not after_us:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, int(after_us) / 1e6)  # nobody handles its signal


# ANCHOR: run
def run(session, o):
    came = here.restore()
    if came is None:
        for number in range(session.rank, PIECES, session.size):
            rod.create(number)
    elif session.rank == 0:
        print(f"revision {came.revision}: step {here.steps}, {came.objects} pieces on {session.size} ranks", flush=True)
    while here.steps < o.steps:
        crash_when_told(o, here.steps)
        if session.rank == 0:
            rod.broadcast("show")
        here.step()
        if session.due(here.steps):
            here.checkpoint()
    session.wait()
    if session.rank == 0:
        rod.broadcast("tell")
    here.step()
    return here.result(HEAT)


# ANCHOR_END: run


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--space", default="rod-space")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
parser.add_argument("--strategy", default="refine")
parser.add_argument("--balance-every", type=int, default=0)
parser.add_argument("--crash", action="append", default=[])
o = parser.parse_args()

# ANCHOR: goes_on
try:
    with (
        mainstay.open(o.space, MPI.COMM_WORLD, every_steps=o.every) as session,
        objects.open(session, strategy=o.strategy, balance_every=o.balance_every, balance_after_failure=5) as here,
    ):
        rod = here.add(Piece)
        while True:
            try:
                heat = run(session, o)
                break
            except mainstay.GroupFailed:
                session.recover()  # without the ranks that failed; then back to the newest revision
        if session.rank == 0:
            print(f"heat {heat[0].hex()} mark {heat[1]:.0f}", flush=True)
except mainstay.NotNeeded:
    pass  # a spare, and the job has ended
sys.exit(mainstay.finalize())
# ANCHOR_END: goes_on
