"""Crashes of Open MPI 5.0.11 itself. A test with such a crash is run again, and reported at the end: see pytest.ini."""

import re

import pytest

# Only the innermost frames are compared, not their callers.
SIGNAL = r"Signal: (?:Segmentation fault|Aborted|Bus error) \(\d+\)(?:(?!End of error message)[\s\S])*?"
# A rank that learns of one more failure in MPIX_Comm_shrink looks at an incomplete communicator.
FELL_OVER = SIGNAL + r"\[ 1\] \S*/libmpi\.so\S*\(ompi_comm_revoke_local\+"
# With the heartbeat on, MPI_Init can crash. In Python the import of mpi4py calls it.
NOT_STARTED = SIGNAL + r"\(ompi_mpi_init\+"
NOT_IMPORTED = r'Fatal Python error: (?:Segmentation fault|Aborted|Bus error)\n\n.*\(most recent call first\):\n +File "<frozen importlib'
# Its daemon can start processes for ever if a rank is killed meanwhile; Mainstay then ends the job.
NEVER_STARTED = r"starting processes in the places of others took more than 120 s"


class MpiCrashed(Exception):
    pass


def mpi_fell_over(output):
    """Whether MPI itself crashed while ranks regrouped, and nothing else crashed."""
    return 0 < len(re.findall(SIGNAL, output)) == len(re.findall(FELL_OVER, output))


def unless_mpi_crashes(job):
    """The result of `job`. If `job` fails by one of these crashes, the test is run again."""
    try:
        return job()
    except (AssertionError, TimeoutError, pytest.fail.Exception) as error:
        if found := re.search("|".join((NOT_STARTED, NOT_IMPORTED, NEVER_STARTED)), str(error)):
            raise MpiCrashed(found[0]) from error
        raise
