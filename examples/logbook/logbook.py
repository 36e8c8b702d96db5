"""An oscillator on each rank, and the log that it keeps: logbook.py STEPS

It saves itself when that is due, with notes, and its log goes back with it.
"""

import sys

import mainstay
import numpy as np
from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
step, state = np.zeros((), int), np.array([1.0 + rank, 0.0])  # place and speed
path = f"log.{rank}.txt"
h = 1e-4
once = np.array([[1 - h * h, h * (1 - 0.1 * h)], [-h, 1 - 0.1 * h]])


def advance():
    """One step of the simulation, which takes a while."""
    for _ in range(300):
        state[:] = once @ state


with mainstay.open("space", MPI.COMM_WORLD) as session:
    session.protect("step", step)
    session.protect("oscillator", state)
    # ANCHOR: output
    session.protect_output(path)
    restored = session.restore()
    log = open(path, "a")  # after the restore, which has cut it back
    # ANCHOR_END: output
    # ANCHOR: restored
    if restored and rank == 0:
        print(f"going on at step {restored.notes['step']}, which code {restored.notes['code']} saved", flush=True)
    # ANCHOR_END: restored

    while step < steps:
        advance()
        step += 1
        if step % 10 == 0:
            log.write(f"{step} {state[0]:.9f}\n")
        # ANCHOR: due
        if session.due(step):
            log.flush()  # what is still in the program's buffer is not in the file
            try:
                revision = session.checkpoint({"step": step, "code": "1.0"})
            except mainstay.Error as error:
                print(f"rank {rank} goes on without it: {error}", file=sys.stderr)
            else:
                if rank == 0:
                    print(f"revision {revision}: step {step}", flush=True)
        # ANCHOR_END: due
    log.close()
if rank == 0:
    print(f"done: step {step}, place {state[0]:.9f}", flush=True)
