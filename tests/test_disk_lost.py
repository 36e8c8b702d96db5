"""A node is lost with its disk, on which something newer was than what the memory of the others has."""

import re

import pytest
from mpi import OPENMPI
from programs import PYTHON
from recovering import Recovering
from staged import pool_directory

RANKS = 3
TRIES = 8  # the copy may be there all the same


def goes_on(scratch, how):
    scratch.mkdir()
    with pool_directory() as nodes:
        recovering = Recovering(scratch, nodes)
        command = [OPENMPI.command("python"), PYTHON / "disk_lost.py", scratch / "space", nodes]
        with recovering.start(RANKS, command, scratch, MAINSTAY_DISK_EVERY=1, **how) as job:
            for _ in job.lines():
                pass
            status = job.wait()
        output = "\n".join(job.output)
    assert status == 0, output
    assert len(re.findall(rf"^rank \d of {RANKS}: 7.0 7.0$", output, re.M)) == RANKS, output
    return output


@pytest.mark.parametrize("how", [{"spares": 1}, {}], ids=["spare", "spawn"])
def test_a_job_goes_on_from_memory_though_a_disk_had_something_newer(scratch, how):
    """It had said that it went on, and was then refused as the disk might come back: all ranks ended."""
    for number in range(TRIES):
        output = goes_on(scratch / str(number), how)
        if "the job went on from revision 4 " in output:
            assert "lost: revision 5 in memory" in output, output
            assert "revision 5 in disk: shard 1 went" in output, output
            return
    pytest.fail(f"the copy was there each time: {output}")
