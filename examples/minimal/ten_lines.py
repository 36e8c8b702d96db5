import mainstay
import numpy as np

field, step = np.zeros(1_000_000), np.zeros((), int)
with mainstay.open("checkpoints", every_seconds=1) as session:
    session.protect("field", field)
    session.protect("step", step)
    session.restore()  # fills both, if an earlier run has saved them
    print(f"begins at step {step}", flush=True)
    while step < 100000:
        field += 1.0 / (1 + step)
        step += 1
        if session.due(step):
            session.checkpoint()  # returns after a copy in memory
