"""A state with bytes that follow from the step: some of it is smooth, and some of it noise. The restored state must be
that of the restored step."""

import sys

import mainstay
import numpy
from mpi4py import MPI

comm, steps = MPI.COMM_WORLD, int(sys.argv[2])


def state(step):
    """The state of this rank: numbers that change slowly, and numbers that cannot be compressed."""
    smooth = numpy.arange(400_003, dtype="f8") // 64 + step + comm.rank
    return smooth, numpy.random.default_rng([step, comm.rank]).integers(0, 256, 300_001, dtype="u1")


step, (smooth, noise) = numpy.zeros((), "i8"), state(0)
with mainstay.open(sys.argv[1], comm) as session:
    for name, array in {"step": step, "smooth": smooth, "noise": noise}.items():
        session.protect(name, array)
    restored = session.restore()
    for expected, found in zip(state(int(step)), (smooth, noise)):
        if not numpy.array_equal(expected, found):
            print(f"rank {comm.rank}: step {int(step)} came back wrong", flush=True)
            comm.Abort(4)
    if restored and comm.rank == 0:
        print(f"restored step {int(step)}", flush=True)
    while step < steps:
        step += 1
        smooth[:], noise[:] = state(int(step))
        session.checkpoint()
        if step % 2 == 0:
            session.wait()
        if comm.rank == 0:
            print(f"saved step {int(step)}", flush=True)
if comm.rank == 0:
    print("done", flush=True)
