"""A job that loses a node with its disk. Its second revision is on the disks, but not yet in the memory of two nodes.

disk_lost.py SPACE NODES
"""

import os
import shutil
import signal
import sys
import time

node = os.path.join(sys.argv[2], str(os.getpid()))
os.environ["MAINSTAY_NODE"] = f"node-{os.getpid()}"
os.environ["MAINSTAY_POOL_DIRECTORY"], os.environ["MAINSTAY_DISK"] = f"{node}/memory", f"{node}/disk"
for name in ("memory", "disk"):
    os.makedirs(f"{node}/{name}")

import mainstay  # noqa: E402
import numpy  # noqa: E402
from mpi4py import MPI  # noqa: E402

STEPS, LAST = 8, 4
born = MPI.COMM_WORLD.rank
values = numpy.zeros(3_000_000)
failed = os.path.join(sys.argv[2], "failed")  # once a rank has


with mainstay.open(sys.argv[1], MPI.COMM_WORLD) as session:
    session.protect("values", values)
    for step in session.steps(STEPS, lambda session: None):
        with session.recovering():
            values[:] = step
            if step == LAST and not os.path.exists(failed):
                session.checkpoint()
                # Copies move on in calls alone, of which there is none now; the disks are fed by a thread.
                time.sleep(1)
                if born == 1:
                    open(failed, "w").close()
                    shutil.rmtree(node)
                    os.kill(os.getpid(), signal.SIGKILL)
            session.comm.Barrier()
            if step != LAST:
                session.checkpoint()
                session.wait()
    print(f"rank {session.rank} of {session.size}: {values[0]} {values[-1]}", flush=True)
sys.exit(mainstay.finalize())
