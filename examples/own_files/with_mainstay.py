import sys

import mainstay
import numpy as np

steps = int(sys.argv[1])
heat, step = np.zeros((200, 100)), np.zeros((), int)

# ANCHOR: own
with mainstay.open("space", every_steps=50, when_busy="now") as session:
    session.protect("heat", heat)
    session.protect("step", step)
    session.restore()
    print(f"begins at step {step}")
    while step < steps:
        heat[0] = 1
        heat[1:] += 0.1 * (heat[:-1] - heat[1:])
        step += 1
        if session.due(step):
            session.checkpoint()
# ANCHOR_END: own
print(f"step {step}, heat[9, 0] = {heat[9, 0]:.12f}")
