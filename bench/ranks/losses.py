"""A running job loses processes, one after another. The others go on with their ranks."""

import os
import signal
import time

from mpi import SURVIVING

from harness import rows

from .jobs import Job, slots_words
from .turns import rounds

TARGET = 1.2
RANKS = 2  # for each process at the start
UNITS = 20  # of work in a step of a rank
OPTIONS = ("--every", "2s", "--in-job", "--recovery", "shrink", "--balance", "refine:2s")


class Course:
    """The course of a job: the seconds from its first step to its last, its steps (repeated ones count, too), its result."""

    def __init__(self, job, kills):
        first, job_s, lines = None, 0, 0
        for line in job.lines():
            first = first or time.monotonic()
            job_s, lines, self.sum = time.monotonic() - first, lines + 1, line["sum"]
            if kills and line["step"] >= kills[0]:
                kills.pop(0)
                os.kill(job.hosts()[-1], signal.SIGKILL)
        self.seconds, self.steps = job_s, lines - 1
        job.check()


def lost(o, folder):
    """Compares the time of a disturbed job with that of an undisturbed one for as many steps."""

    def run(kills):
        def course(scratch):
            program = [folder / "slots" / "work", o.work, UNITS]
            words = slots_words(f"{scratch}/space", RANKS * o.processes, program, SURVIVING, o.processes, OPTIONS)
            with Job(*words, scratch) as job:
                return Course(job, list(kills))

        return course

    kills = [(number + 1) * o.work // (o.lost + 1) for number in range(o.lost)]
    found, case = rounds(o, {"calm": run([]), "lost": run(kills)}, 1), f"{o.lost} of {o.processes} processes are lost"
    [calm], [disturbed] = found["calm"], found["lost"]
    if calm.sum != disturbed.sum:
        raise SystemExit(f"{case}: the result differs from that of the undisturbed job")
    explained = [calm.seconds * disturbed.steps / calm.steps]
    yield rows.floor(case, "calm", [calm.seconds], "s")
    yield rows.floor(case, "explained", explained, "s")
    yield rows.row(case, "seconds", [disturbed.seconds], "s", "explained", explained, TARGET)
    yield rows.row(case, "steps", [disturbed.steps], "steps", "calm_steps", [calm.steps])
    yield rows.floor(case, "calm_steps", [calm.steps], "steps")


CASES = (lost,)
