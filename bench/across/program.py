"""Saves a global array, or restores it over and over beside a raw read of as many bytes.

    program.py SPACE MIB save
    program.py SPACE MIB restore ROUNDS

The array is of rows of 1 MiB, which the ranks share. Prints a line of JSON for each measurement, a value for each
rank. Every read is cold: the space's file is dropped from the cache before, which needs it to be clean.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

import mainstay
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
CELLS = 2**20 // 8


def layout(space):
    [file] = Path(space).glob("layout-*")
    return file


def drop(space):
    """Nothing of the space is in the cache."""
    comm.Barrier()
    if comm.rank == 0:
        with open(layout(space), "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    comm.Barrier()


def timed(work):
    start = time.perf_counter()
    work()
    took = time.perf_counter() - start
    return took


def main():
    space, mib, what, *rounds = sys.argv[1:]
    rows = int(mib)
    first, last = (rows * rank // comm.size for rank in (comm.rank, comm.rank + 1))
    part = np.empty((last - first, CELLS))
    wanted = np.arange(first * CELLS, last * CELLS, dtype="f8").reshape(part.shape)
    part[:] = wanted if what == "save" else 0
    session = mainstay.open(space, comm)
    session.protect("u", part, (rows, CELLS), (first, 0))
    if what == "save":
        session.checkpoint()
        session.close()
        return

    def raw():
        """As many bytes, in large reads past the cache."""
        file = os.open(layout(space), os.O_RDONLY | os.O_DIRECT)
        flat = memoryview(part).cast("B")
        into, at = np.empty(2**21 + 4096, "u1"), first << 20
        into = into[-into.ctypes.data % 4096 :][: 2**21]
        for _ in range(0, len(flat), 2**21):
            at += os.preadv(file, [into], at)
        os.close(file)

    sides = {"raw": raw, "restore": session.restore}
    for round in range(-1, int(rounds[0])):
        for name in random.Random(round).sample(sorted(sides), 2):
            part[:] = 0
            drop(space)
            took = comm.gather(timed(sides[name]))
            if name == "restore":
                assert np.array_equal(part, wanted)
            if comm.rank == 0:
                print(json.dumps({"side": name, "round": round, "seconds": took}), flush=True)
    session.close()


main()
