import mainstay  # +
import numpy as np
from mpi4py import MPI

i = np.arange(100_000)
field, step = np.zeros(i.size), np.zeros((), int)

with mainstay.open("space", MPI.COMM_WORLD, every_steps=100) as session:  # + closes itself
    session.protect("step", step)  # +
    session.protect("field", field)  # +
    if restored := session.restore():  # + nothing there: nothing done
        print(f"restored revision {restored.revision} at step {step}", flush=True)

    while step < 1000:
        field += 1.0 / (1 + i + step)
        step += 1
        if session.due(step):  # + the same on all ranks
            session.checkpoint()  # + returns after a copy
    print(f"step {step}, field[1] = {field[1]:.17g}", flush=True)
