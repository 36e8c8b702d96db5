"""Mainstay saves the state of a parallel program fast, and brings it back after a failure.

import mainstay, numpy

field, step = numpy.zeros((1000, 1000)), numpy.zeros((), "i8")
with mainstay.open("space", comm) as session:  # an mpi4py communicator, or None
    session.protect("field", field)
    session.protect("step", step)
    session.restore()  # does nothing if there is nothing
    while step < 1000:
        ...
        step += 1
        if step % 100 == 0:
            session.checkpoint()  # returns after a copy
"""

from mainstay._engine import *
from mainstay._engine import __all__ as __all__
