"""Particles that drift. Each belongs to one rank, and any other number of ranks divides them again: drift.py STEPS"""

import sys

import mainstay
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
step = np.zeros((), int)


# ANCHOR: divide
def divided(session):
    """This rank's share of the saved particles of all ranks."""
    shards = session.bring_shards()  # what each had: its items and notes
    mine = range(comm.rank, len(shards), comm.size)
    session.bring_shards(mine)  # on all ranks, also where there is nothing to read
    return np.concatenate([np.zeros(0), *(np.frombuffer(session.read_shard(n, "particles")) for n in mine)])
    # ANCHOR_END: divide


# ANCHOR: save
def save(session, particles):
    session.begin(particles.nbytes)
    session.write("particles", 0, particles)
    session.checkpoint()  # adds the step, which is protected
    # ANCHOR_END: save


with mainstay.open("drifting", comm) as session:
    session.protect("step", step)
    if session.restore():
        particles = divided(session)
    else:
        particles = np.random.default_rng(comm.rank).random(1000 * (comm.rank + 1))
    while step < steps:
        particles += 0.01
        step += 1
        if step % 10 == 0:
            save(session, particles)
count, total = comm.reduce(particles.size), comm.reduce(particles.sum())
if comm.rank == 0:
    print(f"step {step}: {count} particles on {comm.size} ranks, mean {total / count:.6f}", flush=True)
