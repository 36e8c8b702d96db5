"""Time-outs of the tests. They are long, because a busy machine may be slow."""

import time

LIMIT_S = 300  # after that it hangs
LOOK_S = 0.05


def until(is_so):
    """Waits until the condition holds. The output of a job shows less: its lines may still wait for their reader."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(LOOK_S)
