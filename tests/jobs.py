"""Jobs of which a test only needs the end."""

import re
import uuid

from job import Job
from limits import LIMIT_S
from mpi import OPENMPI

RANKS = 2
STEPS = 60
DEATH = 45  # the checkpoint of step 40 may still be on its way, but not that of step 30


def run(ranks, command, scratch, mpi=OPENMPI, **more):
    """Runs a job to its end. Returns its exit status and its output."""
    # At MPI_Abort the mpiexec of MPICH may end before it has passed on the last output of a rank. A file has all of it.
    said = scratch / f"said-{uuid.uuid4().hex}.txt"
    if mpi != OPENMPI:
        command = ["sh", "-c", 'exec "$@" >> "$0" 2>&1', said, *command]
    with Job(ranks, command, scratch, LIMIT_S, mpi=mpi, **more) as job:
        for _ in job.lines():
            pass
        status = job.wait()
    own = said.read_text(errors="replace").splitlines() if said.exists() else []
    return status, "\n".join(own + job.output)


def comes_back(program, scratch, mpi=OPENMPI):
    """A program like c/adopt.c is killed and started again. It ends with the sum of an undisturbed run."""
    status, calm = run(RANKS, [program, scratch / "calm", STEPS], scratch, mpi=mpi)
    assert status == 0 and calm.startswith("from step 0\n"), calm
    status, killed = run(RANKS, [program, scratch / "space", STEPS, DEATH], scratch, mpi=mpi)
    assert status != 0 and "sum" not in killed, killed
    status, again = run(RANKS, [program, scratch / "space", STEPS], scratch, mpi=mpi)
    assert status == 0, again
    assert re.match(r"from step (30|40)\n", again), again
    assert again.splitlines()[-1] == calm.splitlines()[-1]
