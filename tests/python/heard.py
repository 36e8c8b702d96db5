"""Ranks that make no calls of MPI: rank 1 dies, and the others only ask, once a second, whether one has failed."""

import os
import signal
import sys
import time
from pathlib import Path

import mainstay
import numpy as np
from mpi4py import MPI

ASKED_MAX = 20
died = Path(sys.argv[2])

with mainstay.open(sys.argv[1], MPI.COMM_WORLD) as session:
    session.protect("x", np.zeros(1), global_shape=(session.size,), offset=(session.rank,))
    session.restore()
    rank, asked = session.rank, 0
    try:
        while asked < ASKED_MAX:
            session.check()
            if rank == 1:
                time.sleep(1)
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(1)
            asked += died.exists()
    except mainstay.GroupFailed:
        pass
    print(f"rank {rank} has heard of it at check {asked}", flush=True)
    session.recover()
sys.exit(mainstay.finalize())
