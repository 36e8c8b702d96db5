"""Compares checkpoints from Python with checkpoints from C: in turns, in one process, of the same memory.

    program.py LIBRARY FIRST DIRECTORY ITEMS BYTES POOL_BYTES CHUNK_BYTES ROUNDS

Prints a line of JSON for each measurement, with a value for each rank. LIBRARY is beside.c. FIRST is the side (c or
python) that makes its session, and so its pool, first.
"""

import ctypes
import json
import os
import random
import sys
import time

import mainstay
import numpy as np
from mpi4py import MPI

SETTLE_S = 0.05
comm = MPI.COMM_WORLD


class FromC:
    side = "c"

    def __init__(self, library, space, items, settings):
        self.library = ctypes.CDLL(library)
        self.library.beside_open.restype = ctypes.c_void_p
        size = [ctypes.c_uint64(settings[name]) for name in ("pool_bytes", "chunk_bytes")]
        self.session = ctypes.c_void_p(self.library.beside_open(os.fsencode(space), *size))
        for name, item in items:
            self.library.beside_protect(
                self.session, name.encode(), ctypes.c_void_p(item.ctypes.data), ctypes.c_uint64(item.size)
            )

    def checkpoint(self):
        perceived, durable = ctypes.c_double(), ctypes.c_double()
        self.library.beside_checkpoint(self.session, ctypes.byref(perceived), ctypes.byref(durable))
        return perceived.value, durable.value

    def close(self):
        self.library.beside_close(self.session)


class FromPython:
    side = "python"

    def __init__(self, space, items, settings):
        self.session = mainstay.open(space, comm, **settings)
        for name, item in items:
            self.session.protect(name, item)

    def checkpoint(self):
        t1 = time.perf_counter()
        self.session.checkpoint()
        t2 = time.perf_counter()
        self.session.wait()
        return t2 - t1, time.perf_counter() - t1

    def close(self):
        self.session.close()


def measure(side, round):
    comm.Barrier()
    if comm.rank == 0:
        os.sync()
        time.sleep(SETTLE_S)
    comm.Barrier()
    perceived, durable = side.checkpoint()
    values = comm.gather({"perceived": perceived, "durable": durable})
    if comm.rank == 0:
        line = {name: [value[name] for value in values] for name in values[0]}
        print(json.dumps({"side": side.side, "round": round, **line}), flush=True)


def main():
    library, first, directory, *numbers = sys.argv[1:]
    count, size, pool_bytes, chunk_bytes, rounds = map(int, numbers)
    settings = {"pool_bytes": pool_bytes, "chunk_bytes": chunk_bytes}
    field = np.ones(size // 8)
    items = [(f"item[{index}]", part) for index, part in enumerate(np.array_split(field, count))]
    make = {
        "c": lambda: FromC(library, f"{directory}/space-c", items, settings),
        "python": lambda: FromPython(f"{directory}/space-python", items, settings),
    }
    sides = [make[side]() for side in sorted(make, key=lambda side: side != first)]
    # After three revisions every block of a space was written before.
    for round in range(-4, rounds):
        for side in random.Random(round).sample(sides, len(sides)):
            field += 1.0
            measure(side, round)
    for side in sides:
        side.close()


main()
