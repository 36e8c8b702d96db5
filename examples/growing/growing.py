"""A list that is longer after each step. A function gives it, and restore() has one made of the size that was saved."""

import mainstay
import numpy as np


class Model:
    def __init__(self):
        self.step, self.values = np.zeros((), int), np.zeros(0)

    # ANCHOR: allocate
    def allocate(self, shape):
        self.values = np.empty(shape)

    def protect(self, session):
        session.protect("step", self.step)
        session.protect("list", lambda: self.values, allocate=self.allocate)
        # ANCHOR_END: allocate

    def advance(self):
        self.step += 1
        self.values = np.append(self.values, np.full(self.step, float(self.step)))


model = Model()
with mainstay.open("space-py") as session:
    model.protect(session)
    session.restore()
    for _ in range(3):
        model.advance()
        session.checkpoint()
print(f"step {model.step}: {model.values.size} values, sum {model.values.sum():.0f}")
