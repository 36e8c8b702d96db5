"""c/waits.c in Python."""

import sys
from pathlib import Path

import mainstay
import numpy
from mpi4py import MPI

comm, held = MPI.COMM_WORLD, Path(sys.argv[2])
state = numpy.zeros(30_000)
session = mainstay.open(sys.argv[1], comm)
session.protect("state", state)
session.checkpoint()
session.wait()
if comm.rank == 0:
    held.touch()
comm.Barrier()
state[7] = 1
session.checkpoint()
session.progress()
session.tick()
session.wait(level="memory")
if not held.exists():
    comm.Abort(4)
comm.Barrier()
if comm.rank == 0:
    held.unlink()
session.wait("space")
try:
    session.wait("disk")
except mainstay.InvalidArgument:
    comm.Abort(5)
