import sys

import mainstay  # +
import numpy as np
from mpi4py import MPI

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
i = np.arange(100_000)
field, step = np.zeros(i.size), np.zeros((), int)

with mainstay.open("space", MPI.COMM_WORLD, every_steps=100) as session:  # + closes itself
    session.protect("step", step)  # +
    session.protect("field", field)  # +
    if restored := session.restore():  # + nothing there: nothing done
        print(f"restored revision {restored.revision} at step {step}", flush=True)

    while step < steps:
        field += 1.0 / (1 + i + step)
        step += 1
        if session.due(step):  # + the same on all ranks
            try:  # +
                session.checkpoint()  # + returns after a copy
            except mainstay.Error as error:  # +
                print(error, file=sys.stderr)  # + the program goes on
    print(f"step {step}, field[1] = {field[1]:.17g}", flush=True)
