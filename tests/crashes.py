"""How Open MPI 5.0.11 crashes by itself. A test in which it does so is run again, and is told of at the end: see pytest.ini."""

import re

import pytest

# The innermost frames say so; what has called them is not asked.
SIGNAL = r"Signal: (?:Segmentation fault|Aborted|Bus error) \(\d+\)(?:(?!End of error message)[\s\S])*?"
# A rank that hears in MPIX_Comm_shrink that one more has failed looks at a communicator that is not whole yet.
FELL_OVER = SIGNAL + r"\[ 1\] \S*/libmpi\.so\S*\(ompi_comm_revoke_local\+"
# With the heartbeat on, MPI_Init can crash. In Python the import of mpi4py calls it.
NOT_STARTED = SIGNAL + r"\(ompi_mpi_init\+"
NOT_IMPORTED = r'Fatal Python error: (?:Segmentation fault|Aborted|Bus error)\n\n.*\(most recent call first\):\n +File "<frozen importlib'
# Its daemon can start processes for ever where a rank is killed meanwhile; Mainstay then ends the job.
NEVER_STARTED = r"starting processes in the places of others took more than 120 s"


class MpiCrashed(Exception):
    pass


def mpi_fell_over(output):
    """Whether MPI itself has crashed while ranks regrouped, and nothing else has."""
    return 0 < len(re.findall(SIGNAL, output)) == len(re.findall(FELL_OVER, output))


def unless_mpi_crashes(job):
    """What `job` returns, which fails where it meets one of these crashes."""
    try:
        return job()
    except (AssertionError, TimeoutError, pytest.fail.Exception) as error:
        if found := re.search("|".join((NOT_STARTED, NOT_IMPORTED, NEVER_STARTED)), str(error)):
            raise MpiCrashed(found[0]) from error
        raise
