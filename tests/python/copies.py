"""c/copies.c in Python: the same words, moments and lines, but for the ways that make a call for ever."""

import os
import signal
import sys
import zlib

import mainstay
import numpy
from mpi4py import MPI

sys.stdout.reconfigure(line_buffering=True)
space, steps, cells = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
waits = len(sys.argv) < 5 or sys.argv[4] == "wait"
fatal, moment, dies_soon = None, "", False
if len(sys.argv) > 7 and os.environ.get("MAINSTAY_NODE") == sys.argv[5]:
    fatal, moment = int(sys.argv[7]), sys.argv[6]


def die_if(now, step):
    if fatal is not None and step >= fatal and moment == now:
        os.kill(os.getpid(), signal.SIGKILL)


def run(comm):
    global dies_soon
    field, step = numpy.zeros(cells), numpy.zeros((), "u8")
    with mainstay.open(space, comm, every_steps=1) as session:
        session.protect("step", step)
        session.protect("field", field)
        die_if("opened", fatal)
        found = session.restore()
        if comm.rank == 0:
            print(f"from {step}")
            if found and found.skipped:
                print("skipped", *found.skipped)
        while step < steps:
            field[:] = 0.5 * field + (comm.rank + numpy.arange(cells) % 1000) / float(step + 3)
            step += 1
            if not session.due(int(step)):
                continue
            die_if("computed", step)
            if fatal is not None and step >= fatal and moment.isdigit() and not dies_soon:
                signal.setitimer(signal.ITIMER_REAL, int(moment) / 1e6)
                dies_soon = True
            session.checkpoint()
            if comm.rank == 0 and not waits:
                print(f"sure {step - 1}")
            die_if("saved", step)
            session.progress()
            die_if("moved", step)
            if waits:
                session.wait()
                while dies_soon:  # however slow the machine is: at this step, and no later one
                    signal.pause()
                if comm.rank == 0:
                    print(f"sure {step}")
            die_if("waited", step)
    told = comm.gather(zlib.crc32(field))
    if comm.rank == 0:
        print("end", *told)


try:
    run(MPI.COMM_WORLD)
except mainstay.Error as error:
    print(f"WRONG {error.status} {error}", file=sys.stderr, flush=True)
    MPI.COMM_WORLD.Abort(3)
