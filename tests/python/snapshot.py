"""A program on mpi4py with arrays from Mainstay. It writes to them as soon as a checkpoint returns.

    snapshot.py SPACE STEPS [DEATH]

Prints the step that it began at, and its sum. Rank 1 kills itself after the checkpoint of step DEATH.
"""

import os
import signal
import sys

import mainstay
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
space, steps = sys.argv[1], int(sys.argv[2])
death = int(sys.argv[3]) if len(sys.argv) > 3 else 0
with mainstay.open(space, world) as session:
    field = session.empty("field", (1024, 512))
    halo = session.empty("halo", 1 << 17, "i8", written_by_system=True, same_address=True)
    state = np.zeros(2, "i8")
    places = np.arange(1, field.size + 1).reshape(field.shape)
    session.protect("state", state)
    assert field.shape == (1024, 512) and field.dtype == np.float64 and not field.any() and field.flags.writeable
    session.restore()

    def total():
        return int(np.bitwise_xor.reduce(field.view("i8"), axis=None) ^ np.bitwise_xor.reduce(halo))

    if state[0] and state[1] != total():
        print("WRONG: other memory than at the checkpoint")

    def disturb():
        sent = field.view("i8").ravel()[: halo.size].copy()
        world.Sendrecv(sent, (world.rank + 1) % world.size, recvbuf=halo, source=(world.rank - 1) % world.size)
        field[:] *= 0.75

    if world.rank == 0:
        print("from step", state[0], flush=True)
    if state[0]:
        # Writes that came after that checkpoint.
        disturb()
    while state[0] < steps:
        state[0] += 1
        field += np.sin(field + places * state[0] * (world.rank + 1))
        if state[0] % 4 == 0:
            state[1] = total()
            session.checkpoint()
            if world.rank == 1 and state[0] == death:
                os.kill(os.getpid(), signal.SIGKILL)
            disturb()
    sys.stdout.write(f"sum of rank {world.rank}: {total()}\n")
    sys.stdout.flush()
    session.wait()
    session.free("field")
    # The memory exists as long as the array.
    field += 1
