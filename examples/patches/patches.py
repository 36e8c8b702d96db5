"""Patches of a grid, each as large as it has become: patches.py STEPS

They are written one after another into a stream, and read back from it.
"""

import sys

import mainstay
import numpy as np
from mpi4py import MPI

CELLS_MAX = 10_000
rank = MPI.COMM_WORLD.rank
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
step, patches = np.zeros((), int), [np.zeros(0) for _ in range(4)]


def advance():
    """One step of the simulation, after which one patch is larger."""
    for p, patch in enumerate(patches):
        patch[:] = 0.5 * patch + rank + p + np.arange(patch.size)
    p = int(step) % len(patches)
    if patches[p].size < CELLS_MAX:
        patches[p] = np.append(patches[p], np.full(10, float(step)))


# ANCHOR: save
def save(session):
    session.begin(len(patches) * (CELLS_MAX + 100) * 8)  # the most that it can ever become: the first sizes the space
    with session.open("patches", "wb") as file:
        for patch in patches:
            np.save(file, patch)
    session.checkpoint()  # adds what is protected
    # ANCHOR_END: save


# ANCHOR: load
def load(session):
    with session.open("patches") as file:
        patches[:] = [np.load(file) for _ in patches]
    # ANCHOR_END: load


with mainstay.open("space", MPI.COMM_WORLD) as session:
    session.protect("step", step)
    if session.restore():
        load(session)
    if rank == 0:
        print(f"from step {step}", flush=True)
    while step < steps:
        advance()
        step += 1
        if step % 10 == 0:
            save(session)
if rank == 0:
    print(f"step {step}, sum {sum(patch.sum() for patch in patches):.17g}", flush=True)
