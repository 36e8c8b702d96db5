"""c/levels.c in Python: swapped arrays, an array that is new in each step, a box of a larger array, and a list.

levels.py SPACE FROM TO follow|address
"""

import sys

import mainstay
import numpy as np
from mpi4py import MPI

CELLS = 30000


class Wave:
    def __init__(self, rank):
        i = np.arange(CELLS)
        self.cur, self.prev = (i * 37 % 101 + rank).astype("f8"), (i * 17 % 103).astype("f8")
        self.next, self.fresh = np.zeros(CELLS), np.ones((6, 50))
        self.box, self.other_box = np.zeros((12, 52)), np.zeros((12, 52))

    def step(self, number):
        cur, prev = self.cur, self.prev
        self.next[1:-1] = 2 * cur[1:-1] - prev[1:-1] + 0.25 * (cur[:-2] - 2 * cur[1:-1] + cur[2:])
        self.next[[0, -1]] = cur[[0, -1]]
        self.cur, self.prev, self.next = self.next, cur, prev
        self.fresh = self.fresh * 0.5 + number
        self.other_box[1:-1, 1:-1] = self.box[1:-1, 1:-1] + self.cur[:500].reshape(10, 50)
        self.box, self.other_box = self.other_box, self.box


def main():
    space, start, stop, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    comm = MPI.COMM_WORLD
    wave, step, numbers = Wave(comm.rank), np.zeros((), "i8"), np.zeros(0)
    buffers = {"cur": lambda: wave.cur, "prev": lambda: wave.prev, "fresh": lambda: wave.fresh}
    with mainstay.open(space, comm) as session:
        session.protect("step", step)
        for name, buffer in buffers.items():
            session.protect(name, buffer if mode == "follow" else buffer())
        box = lambda: wave.box[1:-1, 1:-1]  # noqa: E731
        place = {"global_shape": (10 * comm.size, 50), "offset": (10 * comm.rank, 0)}
        session.protect("box", box if mode == "follow" else box(), **place)

        def allocate(shape):
            nonlocal numbers
            numbers = np.empty(shape)

        if mode == "follow":
            session.protect("list", lambda: numbers, allocate=allocate)
        else:
            saved = session.saved("list")
            assert (saved is not None) == (start > 0)
            if saved is not None:
                numbers = np.zeros(saved.shape, saved.dtype)
            session.protect("list", numbers)
        session.restore()
        assert step == start, step
        while step < stop:
            wave.step(int(step))
            step += 1
            numbers = np.append(numbers, wave.cur[CELLS // 2])
            if mode != "follow":
                session.move("list", numbers)
            session.checkpoint()
    sums = [repr(float(array.ravel() @ (np.arange(array.size) % 7 + 1.0)))
            for array in (wave.cur, wave.prev, wave.fresh, wave.box[1:-1, 1:-1], numbers)]  # fmt: skip
    print(f"rank {comm.rank}:", *sums)


main()
