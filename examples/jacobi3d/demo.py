"""Kills one rank of a running simulation and shows that nothing is lost.

    python demo.py

Builds jacobi3d, runs it undisturbed, runs it again with checkpoints, kills a
rank in the middle, starts it again from the newest complete revision, and
compares the fields bit for bit. Writes demo-out/jacobi3d.png.
"""

import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy

import dem
import picture
from build import build
from job import Job
from mpi import ROOT

RANKS = 4
KILLED = 2
CELLS = (224, 208, 112)  # 10 MB a rank
STEPS = 900
EVERY = 100
KILL_AT = 560
LIMIT_S = 120  # of one run, on a machine that has much else to do
OUT = ROOT / "demo-out" / "jacobi3d.png"

CHECKPOINT = re.compile(r"checkpoint (\d+) of step (\d+): t1 ([\d.]+) s, t2-t1 ([\d.]+) ms, t3-t1 ([\d.]+) ms")
RESTORED = re.compile(r"restored revision (\d+), continuing at step (\d+)")
STEP = re.compile(r"step (\d+)$")
YEARS = re.compile(r"done: \d+ steps, (\d+) years")


class Wrong(Exception):
    """Something is not as it should be."""


class Timeline:
    """What happened when, in seconds since the jobs with checkpoints began."""

    def __init__(self):
        self.begin = time.time()
        self.events = []

    def add(self, what, at=None):
        self.events.append((time.time() if at is None else at, what))

    def read(self, line):
        """Adds what a line of the job tells; the step, if the line is of a checkpoint."""
        if match := CHECKPOINT.match(line):
            revision, step, t1, perceived, durable = match.groups()
            self.add(
                f"t1  revision {revision}, step {step:>3}    "
                f"t2 = t1 + {perceived:>6} ms    t3 = t1 + {durable:>6} ms",
                float(t1),
            )
            return int(step)
        return None

    def show(self):
        for at, what in sorted(self.events):
            print(f"  {at - self.begin:7.3f} s  {what}")


def field(path):
    return numpy.fromfile(path).reshape(CELLS)


def command(scratch, *more):
    nx, ny, nz = CELLS
    return [
        scratch / "jacobi3d", "--dem", scratch / "dem", "--nx", nx, "--ny", ny, "--nz", nz,
        "--steps", STEPS, *more,
    ]  # fmt: skip


def undisturbed(scratch):
    with Job(RANKS, command(scratch, "--no-checkpoint", "--out", scratch / "undisturbed"), scratch, LIMIT_S) as job:
        for _ in job.lines():
            pass
        if job.wait() != 0:
            raise Wrong("the undisturbed run failed:\n" + job.tail())
        return int(YEARS.search(job.tail())[1])


def killed(scratch, timeline):
    """Runs until one rank is killed; the step that was reached, and the last one saved on rank 0."""
    reached = saved = 0
    done = False
    more = ["--space", scratch / "space", "--every", EVERY, "--out", scratch / "killed"]
    with Job(RANKS, command(scratch, *more), scratch, LIMIT_S) as job:
        for line in job.lines():
            saved = timeline.read(line) or saved
            if match := STEP.match(line):
                reached = int(match[1])
                if reached >= KILL_AT and not done:
                    job.kill_rank(KILLED)
                    timeline.add(f"rank {KILLED} is killed (SIGKILL) after step {reached}")
                    done = True
            if "signal 9" in line:
                print("  mpiexec says:", line.strip())
        status = job.wait()
        if not done:
            raise Wrong("the job ended before a rank could be killed:\n" + job.tail())
        if status == 0:
            raise Wrong("the job went on without a killed rank")
        timeline.add(f"the job is dead (exit status {status})")
    return reached, saved


def again(scratch, timeline):
    """Runs to the end; the revision and the step from which."""
    restored = None
    more = ["--space", scratch / "space", "--every", EVERY, "--first", scratch / "restored", "--out", scratch / "again"]
    timeline.add("the job is started again")
    with Job(RANKS, command(scratch, *more), scratch, LIMIT_S) as job:
        for line in job.lines():
            timeline.read(line)
            if match := RESTORED.match(line):
                restored = int(match[1]), int(match[2])
                timeline.add(f"revision {restored[0]} is restored: on from step {restored[1]}")
        if job.wait() != 0:
            raise Wrong("the job that was started again failed:\n" + job.tail())
        timeline.add(f"step {STEPS}: the end")
    if restored is None:
        raise Wrong("the job that was started again restored nothing")
    return restored


def compare(scratch):
    """Bit for bit; and the field must still have been on the move, or a wrong restore could pass."""
    expected, got = field(scratch / "undisturbed"), field(scratch / "again")
    first = field(scratch / "restored")
    differ = numpy.count_nonzero(expected.view("u8") != got.view("u8"))
    if differ:
        raise Wrong(f"{differ} of {expected.size} cells differ from the undisturbed run")
    moved = numpy.count_nonzero(first.view("u8") != got.view("u8")) / first.size
    most = float(numpy.abs(got - first).max())
    if moved < 0.25 or most < 0.1:
        raise Wrong(f"the field hardly moved after the restore ({moved:.0%} of the cells, {most:.3f} °C)")
    return expected, moved, most


def demo(scratch):
    began = time.monotonic()
    print("Building examples/jacobi3d", flush=True)
    build(scratch / "jacobi3d")
    dem.write(scratch / "dem")

    print(f"Running {STEPS} steps on {RANKS} ranks, undisturbed", flush=True)
    years = undisturbed(scratch)

    print(f"Running again with a checkpoint every {EVERY} steps, to kill rank {KILLED}", flush=True)
    timeline = Timeline()
    timeline.add(f"the job is started on {RANKS} ranks")
    reached, saved = killed(scratch, timeline)
    print("Starting the job again", flush=True)
    revision, step = again(scratch, timeline)
    # The last revision may have been in the air on some rank, but not the one before.
    if not max(EVERY, saved - EVERY) <= step <= reached + EVERY or step % EVERY:
        raise Wrong(f"revision {revision} is of step {step}, but {saved} was saved and {reached} reached")
    expected, moved, most = compare(scratch)

    print("\nWhat happened")
    timeline.show()
    print(f"\nBefore the kill {reached} steps were done, after the restore {STEPS - step}: from step {step} to {STEPS}.")
    print(f"In these, {moved:.0%} of the cells still changed, by up to {most:.2f} °C: far from the end state.")
    print(f"All {expected.size} cells are bit for bit those of the undisturbed run.")

    OUT.parent.mkdir(exist_ok=True)
    picture.draw(expected, years, OUT)
    print(f"A cut through the ground: {OUT.relative_to(ROOT)}   ({time.monotonic() - began:.0f} s in all)")


def main():
    # An end by SIGTERM cleans up like one by Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="mainstay-demo-") as scratch:
            demo(Path(scratch))
    except (Wrong, TimeoutError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: interrupted")


if __name__ == "__main__":
    main()
