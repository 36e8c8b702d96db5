"""Like examples/memwrite, in Python with numpy: declares written memory settled, and writes some of it again.

If the name of another predictor follows the number of steps, that predictor names the settled memory.
"""

import sys

import mainstay
import numpy
from mpi4py import MPI

PARTS = 8
comm, steps = MPI.COMM_WORLD, int(sys.argv[2])
predictor = sys.argv[3] if len(sys.argv) > 3 else "told"
state, step = numpy.zeros((PARTS, 128 * 1024), "u1"), numpy.zeros((), "i8")
with mainstay.open(sys.argv[1], comm, capture="incremental", predictor=predictor, stagger="off") as session:
    session.protect("step", step)
    session.protect("state", state)
    restored = session.restore()
    # The step gives the number of times that each part was written.
    done = int(step)
    expected = [(done + PARTS - 1 - part) // PARTS % 256 for part in range(PARTS)]
    for part in range(PARTS):
        if not (state[part] == expected[part]).all():
            print(f"rank {comm.rank}: part {part} of step {done} came back wrong", flush=True)
            comm.Abort(4)
    if restored and comm.rank == 0:
        print(f"restored at step {done}", flush=True)
    while step < steps:
        part = int(step) % PARTS
        state[part] += 1
        if predictor == "told":
            session.settled("state", part * state.shape[1], state.shape[1])
        session.tick()
        if step % 7 == 0:
            # The part was not settled.
            state[part, ::9999] += 1
            state[part, ::9999] -= 1
        step += 1
        if step % 3 == 0:
            session.checkpoint()
            session.wait()
            if comm.rank == 0:
                print(f"saved step {int(step)}", flush=True)
    told = session.speculation()
    if comm.rank == 0:
        print(f"done: {told.early} of {told.dirty}, {told.wasted} in vain {told.off!r}", flush=True)
