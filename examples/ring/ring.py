import mainstay
import numpy as np
from mpi4py import MPI

CELLS, STEPS = 100_000, 1000
cells = np.zeros(0)


def layout(session):  # at the beginning, and after each failure
    global cells
    first, end = (CELLS * (session.rank + next) // session.size for next in (0, 1))
    cells = np.zeros(end - first + 2)  # with a ghost at both ends
    cells[1:-1] = np.arange(first, end) % 1000
    session.protect("cells", cells[1:-1], global_shape=[CELLS], offset=[first])


def advance(workers):
    low, high = (workers.rank - 1) % workers.size, (workers.rank + 1) % workers.size
    coming = [workers.Irecv(cells[:1], low, 1), workers.Irecv(cells[-1:], high, 0)]
    workers.Send(cells[1:2], low, 0)
    workers.Send(cells[-2:-1], high, 1)
    MPI.Request.Waitall(coming)
    cells[1:-1] = (cells[:-2] + 2 * cells[1:-1] + cells[2:]) / 4


with mainstay.open("ring", MPI.COMM_WORLD, every_steps=100) as session:
    for step in session.steps(STEPS, layout):
        with session.recovering():
            advance(session.comm)  # a new one after each failure
    if session.rank == 0:
        print(f"the first cell is {cells[1]:.17g}", flush=True)
mainstay.finalize()
