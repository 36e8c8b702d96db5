"""A field that ranks relax together, each with a block of its rows, in a job that goes on when ranks fail.

    recovery.py SPACE POOLS STEPS CELLS [whole] [STEP:RANK:MOMENT ...]

With `whole`, each rank's part is protected as its own, and not as a box of the field.

Each process is a node of its own, which is lost with it. An original rank is killed at its moment of a step:
`computes`, `talks` (while others wait for it), `lays_out` (STEP counts its layouts), `opens` or `closes` (STEP is 0).
With `:stop` behind it, the rank is stopped instead. Other moments do not kill it: at `writes` it writes to a pipe
without a reader, as MPI does. At `raises:truncation` and `raises:own` it has an error without a failed rank. At `waits`
it waits, for some time, for the file SPACE.go. At `leaves` it ends as a spare, by the exception of Mainstay. At
`0:RANK:replaces` it is killed by a process that starts in the place of another, at its beginning. From `deaf` on it
lives, but gets no agreement of a recovery and no question.
"""

import os
import signal
import sys
import time
import zlib
from array import array
from pathlib import Path

os.environ["MAINSTAY_NODE"] = f"node-{os.getpid()}"
space, pools, steps, cells = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
is_first = "MAINSTAY_RUN_REPLACES" not in os.environ
os.environ["MAINSTAY_POOL_DIRECTORY"] = pool = os.path.join(pools, f"{os.getpid()}")
os.mkdir(pool)
victim = Path(f"{space}.victim")

if not is_first and victim.exists():
    # Before MPI has begun here: the starting rank waits for this process.
    os.kill(int(victim.read_text()), signal.SIGKILL)
    victim.unlink()


def is_last(name):
    """Whether this process was started to die here; the next one is not."""
    path = Path(f"{space}.{name}")
    if is_first or not path.exists():
        return False
    path.unlink()
    return True


if is_last("stillborn"):
    os.kill(os.getpid(), signal.SIGKILL)

import mainstay  # noqa: E402
import numpy  # noqa: E402
from mpi4py import MPI  # noqa: E402

signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as programs do whose output goes into pipes
born = MPI.COMM_WORLD.rank if is_first else None
words = sys.argv[5:]
has_boxes = "whole" not in words
words = [word.split(":", 2) for word in words if word != "whole"]
moments = [(int(step), moment) for step, rank, moment in words if int(rank) == born]
is_deaf, has_deaf = False, any(moment == "deaf" for _, _, moment in words)
if has_deaf or any(moment.endswith(":stop") for _, _, moment in words):
    mainstay._engine._Ranks.patience(3)
if (0, "replaces") in moments:
    victim.write_text(str(os.getpid()))
for name in "stillborn", "begun":
    if (0, name) in moments:
        Path(f"{space}.{name}").touch()
if is_last("begun"):
    os.kill(os.getpid(), signal.SIGKILL)


def say(*words):
    sys.stdout.write("= " + " ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Heard(MPI.Intracomm):
    """Shows the effect of Open MPI on a rank if another rank is killed while it returns memory to that rank."""

    def Shrink(self):
        return Heard(super().Shrink())

    def Iagree(self, flags):
        return MPI.COMM_SELF.Irecv(array("q", [0]), 0, 1) if is_deaf else super().Iagree(flags)

    def Iprobe(self, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=None):
        is_told = super().Iprobe(source, tag, status)
        return is_told and (source == MPI.ANY_SOURCE or not is_deaf)


def comes(step, moment):
    global is_deaf
    is_deaf |= (step, "deaf") in moments and moment == "computes"
    if (step, moment) in moments:
        os.kill(os.getpid(), signal.SIGKILL)
    if (step, moment + ":stop") in moments:
        os.kill(os.getpid(), signal.SIGSTOP)
    if (step, "writes") in moments and moment == "computes":
        reading, writing = os.pipe()
        os.close(reading)
        try:
            os.write(writing, b"x")
        except BrokenPipeError:
            say("refused")
        os.close(writing)
    if (step, "waits") in moments and moment == "computes":
        deadline = time.monotonic() + 30
        while not os.path.exists(f"{space}.go") and time.monotonic() < deadline:
            time.sleep(0.02)


class Field:
    """The rows of this rank, with one row of each neighbour."""

    def __init__(self):
        self.step = self.layouts = 0

    def lay_out(self, session):
        comes(self.layouts, "lays_out")
        self.layouts += 1
        self.comm = comm = session.comm
        assert (comm.rank, comm.size) == (session.rank, session.size), "another number on the program's communicator"
        first, end = (cells * (comm.rank + next) // comm.size for next in (0, 1))
        self.now = numpy.zeros((end - first + 2, cells))
        self.now[1:-1] = numpy.sin(numpy.arange(first * cells, end * cells)).reshape(-1, cells)
        place = {"global_shape": (cells, cells), "offset": (first, 0)} if has_boxes else {}
        session.protect("field", lambda: self.now[1:-1], **place)
        told = comm.gather(comm.rank)
        if comm.rank == 0:
            say("ranks", *told)

    def exchange(self):
        comm, now = self.comm, self.now
        above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
        # Neither Sendrecv nor Isend: in Open MPI 5.0.11 they can crash a rank that notices a recovery in them.
        coming = [comm.Irecv(now[-1], below), comm.Irecv(now[0], above)]
        comm.Send(now[1], above)
        comes(self.step, "talks")
        comm.Send(now[-2], below)
        MPI.Request.Waitall(coming)

    def relax(self):
        now = self.now
        # A fixed order of sums, for any number of ranks.
        inside = 0.25 * (now[1:-1] + now[:-2]) + 0.25 * (now[1:-1] + now[2:])
        inside[:, 1:] += 0.125 * now[1:-1, :-1]
        inside += self.step
        self.now = numpy.concatenate([now[:1], inside, now[-1:]])


def raises(step, once):
    """An error that is no failure of a rank."""
    for at, moment in moments:
        if at == step and moment.startswith("raises:") and moment not in once:
            once.add(moment)
            if moment == "raises:truncation":
                # An error of this rank alone: a message that is longer than its buffer.
                request = MPI.COMM_SELF.Isend(array("q", [1, 2]), 0)
                MPI.COMM_SELF.Recv(array("q", [0]), 0)
                request.Wait()
            raise ValueError("of the program's own")


def run():
    field, once = Field(), set()
    comes(0, "opens")
    with mainstay.open(space, Heard(MPI.COMM_WORLD) if has_deaf else MPI.COMM_WORLD, every_steps=1) as session:
        if not is_first:
            say("replaces", session.rank)
            say("given", os.environ.get("GIVEN"))
        for step in session.steps(steps, field.lay_out):
            with session.recovering():
                field.step = step
                if session.rank == 0:
                    say("step", step)
                comes(step, "computes")
                raises(step, once)
                field.exchange()
                field.relax()
        # In the order of rows, on whichever ranks they are.
        rows = session.comm.gather(field.now[1:-1])
        comes(0, "closes")
    if session.rank == 0:
        say("end", zlib.crc32(numpy.concatenate(rows)), session.size)
    say("closed")


status = 0
try:
    run()
except mainstay.NotNeeded as ended:
    say("not needed")
    if (0, "leaves") in moments:
        raise
    status = ended.code
except KeyboardInterrupt:
    say("interrupted")
except (mainstay.Error, MPI.Exception, ValueError) as error:
    say("raised", type(error).__name__, error)
    time.sleep(0.2)  # it is read first
    sys.exit(3)
sys.exit(mainstay.finalize(status))
