"""Jobs that a test only has to see the end of."""

import re

from job import Job
from limits import LIMIT_S
from mpi import OPENMPI

RANKS = 2
STEPS = 60
DEATH = 45  # the checkpoint of step 40 may still be on its way, but not that of step 30


def run(ranks, command, scratch, **more):
    """Runs a job to its end: its exit status and what it printed."""
    with Job(ranks, command, scratch, LIMIT_S, **more) as job:
        for _ in job.lines():
            pass
        return job.wait(), "\n".join(job.output)


def comes_back(program, scratch, mpi=OPENMPI):
    """A program like c/adopt.c is killed, started again, and ends with the sum of a run that nothing disturbed."""
    status, calm = run(RANKS, [program, scratch / "calm", STEPS], scratch, mpi=mpi)
    assert status == 0 and calm.startswith("from step 0\n"), calm
    status, killed = run(RANKS, [program, scratch / "space", STEPS, DEATH], scratch, mpi=mpi)
    assert status != 0 and "sum" not in killed, killed
    status, again = run(RANKS, [program, scratch / "space", STEPS], scratch, mpi=mpi)
    assert status == 0, again
    assert re.match(r"from step (30|40)\n", again), again
    assert again.splitlines()[-1] == calm.splitlines()[-1]
