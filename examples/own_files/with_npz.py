import os
import sys

import numpy as np

steps = int(sys.argv[1])
heat, step = np.zeros((200, 100)), 0

# ANCHOR: own
if os.path.exists("restart.npz"):
    with np.load("restart.npz") as saved:
        heat[:], step = saved["heat"], int(saved["step"])
print(f"begins at step {step}")
while step < steps:
    heat[0] = 1
    heat[1:] += 0.1 * (heat[:-1] - heat[1:])
    step += 1
    if step % 50 == 0:
        with open("restart.new", "wb") as file:
            np.savez(file, heat=heat, step=step)
            file.flush()
            os.fsync(file.fileno())
        os.replace("restart.new", "restart.npz")
# ANCHOR_END: own
print(f"step {step}, heat[9, 0] = {heat[9, 0]:.12f}")
