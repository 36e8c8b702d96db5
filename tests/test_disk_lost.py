"""A node is lost with a disk that held something newer than the memory of the others; or a disk is missing after a
power loss."""

import array
import fcntl
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest
from limits import LIMIT_S
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


@pytest.mark.campaign
@pytest.mark.parametrize("how", [{"spares": 1}, {}], ids=["spare", "spawn"])
def test_a_job_goes_on_from_memory_though_a_disk_had_something_newer(scratch, how):
    """The job reported that it went on. Then it was refused because the disk might come back: all ranks ended."""
    for number in range(TRIES):
        output = goes_on(scratch / str(number), how)
        if "the job went on from revision 4 " in output:
            assert "lost: revision 5 in memory" in output, output
            assert "revision 5 in disk: shard 1 went" in output, output
            return
    pytest.fail(f"the copy was there each time: {output}")


EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
# With this option ext4 leaves a file empty if it is renamed before it is synced, as xfs does.
OPTIONS = "loop,noauto_da_alloc"


@contextmanager
def mounted(image, folder):
    """Puts the content of `folder` on a file system of its own, until its power is lost."""
    done = subprocess.run(["mount", "-o", OPTIONS, image, folder], capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
        directory = os.open(folder, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, EXT4_IOC_SHUTDOWN, array.array("I", [NO_LOG_FLUSH]))
        finally:
            os.close(directory)
    finally:
        subprocess.run(["umount", folder], check=True, timeout=LIMIT_S)


def test_what_the_disks_had_is_known_after_the_power_was_lost(scratch):
    """Otherwise a job would begin anew, and overwrite the data that the disk brings back."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    image, folder, disk = scratch / "image", scratch / "mounted", scratch / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", image], capture_output=True, text=True, timeout=LIMIT_S)
    assert made.returncode == 0, made.stderr
    command = [sys.executable, PYTHON / "disk_told.py", folder / "space", disk, "3"]
    with mounted(image, folder):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
            assert job.stdout.readline() == "told 3\n"
            job.kill()
        # A rename becomes durable with any sync.
        with open(folder / "other", "w") as other:
            os.fsync(other.fileno())
    disk.rename(scratch / "unplugged")
    with mounted(image, folder):
        refused = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        assert refused.returncode != 0 and "revision 3 " in refused.stderr and "disk_lost" in refused.stderr, refused
