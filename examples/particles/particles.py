"""Particles on each rank, ever more of them: particles.py STEPS [REVISION]

It saves itself with the interface of PFS-delegation, and goes on from the last valid revision, or from REVISION.
"""

import sys

import numpy as np
from mainstay import pfs
from mpi4py import MPI

MOST, EVERY = 10000, 10
PARTICLE = np.dtype([("place", "f8"), ("speed", "f8")])
STATE = np.dtype([("step", "u8"), ("count", "u8"), ("all", PARTICLE, MOST)])

comm = MPI.COMM_WORLD
steps, revision = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
state = np.zeros((), STATE)


def advance():
    """One step; now and then a particle is born, on each rank at its own pace."""
    there = state["all"][: state["count"]]
    there["speed"] -= 0.01 * there["place"]
    there["place"] += 0.01 * there["speed"]
    state["step"] += 1
    if state["step"] % (comm.rank + 3) == 0 and state["count"] < MOST:
        state["all"][state["count"]] = 1 + comm.rank, 0
        state["count"] += 1


# ANCHOR: all
info = {"striping_factor": "4", "striping_unit": "65536", "mainstay_keep": "2"}  # or an MPI.Info
with pfs.open("space", comm, count=state.nbytes, info=info) as space:
    got = space.read(state, revision=revision)
    if got and comm.rank == 0:
        print(f"going on at step {state['step']}, from revision {got.revision}", flush=True)
    while state["step"] < steps:
        advance()
        if state["step"] % EVERY == 0:
            bytes = state.nbytes - int(MOST - state["count"]) * PARTICLE.itemsize  # another number on each rank
            space.write(memoryview(state.tobytes())[:bytes])  # durable when it returns
# ANCHOR_END: all

total = comm.allreduce(float(state["all"]["place"][: state["count"]].sum()))
if comm.rank == 0:
    print(f"step {state['step']}, sum {total:.9f}", flush=True)
