"""How long tests wait for what must come: a machine at work on other things may take long."""

import time

import pytest

LIMIT_S = 300  # after that it hangs
LOOK_S = 0.05
NOT_STARTED = [
    "MPI_Init",
    "ompi_mpi_init",
    "Extension modules: ",
    "starting processes in the places of others took more than",
]


def until(is_so):
    """Waits until it is so. What a job has printed tells less: lines may wait for their reader while the job is elsewhere."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(LOOK_S)


def started(job, tries=6):
    """What `job` returns. Not looked at is that Open MPI 5.0.11 can crash in MPI_Init with the heartbeat on, and that its daemon can
    start processes for ever where a rank is killed meanwhile."""
    for left in reversed(range(tries)):
        try:
            return job()
        except (AssertionError, TimeoutError, pytest.fail.Exception) as error:
            if not left or not any(sign in str(error) for sign in NOT_STARTED):
                raise
