"""How long tests wait for what must come: a machine at work on other things may take long."""

import time

LIMIT_S = 300  # after that it hangs
LOOK_S = 0.05


def until(is_so):
    """Waits until it is so. What a job has printed tells less: lines may wait for their reader while the job is elsewhere."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(LOOK_S)
