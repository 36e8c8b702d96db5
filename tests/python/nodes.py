"""c/nodes.c in Python.

nodes.py SPACE STEPS GATE [STEP]...
"""

import os
import sys
import time
from pathlib import Path

import mainstay
import numpy as np
from mpi4py import MPI

CELLS = 20_000
LIMIT_S = 60


def wait_for(gate):
    if not gate.exists():
        print(f"waiting at step {gate.suffix[1:]}", flush=True)
        deadline = time.monotonic() + LIMIT_S
        while not gate.exists() and time.monotonic() < deadline:
            time.sleep(0.025)


def main():
    space, steps, gate, stops = sys.argv[1], int(sys.argv[2]), sys.argv[3], set(map(int, sys.argv[4:]))
    comm = MPI.COMM_WORLD
    print(f"rank {comm.rank} on {os.environ.get('MAINSTAY_NODE', '?')}", flush=True)
    step, field, cells = np.zeros((), "u8"), np.zeros(CELLS, "u8"), np.arange(CELLS, dtype="u8")
    with mainstay.open(space, comm) as session:
        session.protect("step", step)
        session.protect("field", field)
        session.restore()
        if comm.rank == 0:
            print(f"from step {step}", flush=True)
        while step < steps:
            field[:] = field * np.uint64(6364136223846793005) + cells + np.uint64(comm.rank + int(step))
            step += np.uint64(1)
            if step % 10 == 0:
                session.checkpoint()
            if int(step) in stops:
                session.wait()
                if comm.rank == 0:
                    wait_for(Path(f"{gate}.{step}"))
                comm.Barrier()
    weights = cells * np.uint64(2) + np.uint64(2 * comm.rank + 1)
    mine, whole = np.array([np.bitwise_xor.reduce(field * weights)]), np.zeros(1, "u8")
    comm.Allreduce(mine, whole, MPI.BXOR)
    if comm.rank == 0:
        print(f"hash {whole[0]:016x}", flush=True)


main()
