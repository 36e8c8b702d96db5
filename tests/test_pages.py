"""A program that keeps a sum of its own memory is killed again and again: it comes back with exactly the memory of a
checkpoint, with each way to find changes and to copy."""

import random
import re
import time
from contextlib import suppress

import pytest
from job import Job
from limits import LIMIT_S
from programs import build_c
from ways import rarely

RANKS = 2
ENDLESS = 10**6  # steps: of a job that is killed
LATEST_S = 0.15  # after it has begun, or has said that a revision is sure: in the campaign
PAGES, HASHES = ({"MAINSTAY_CAPTURE": "incremental", "MAINSTAY_TRACK": track} for track in ("pages", "hashes"))
SNAPSHOT, BOTH = (
    {"MAINSTAY_CAPTURE": capture, "MAINSTAY_SNAPSHOT_BYTES": 0} for capture in ("snapshot", "incremental-snapshot")
)
MEMORY = {"MAINSTAY_MEMORY": "auto", "MAINSTAY_PFS_EVERY": 5}
# Each with other settings that a user may have chosen.
SETTINGS = {
    "pages": PAGES,
    "pages, audited": {**PAGES, "MAINSTAY_AUDIT": 2, "MAINSTAY_PER": "node"},
    "pages, memory": {**PAGES, **MEMORY},
    "pages, direct": {**PAGES, "MAINSTAY_STAGE": "direct", "MAINSTAY_KEEP": 2},
    "hashes": {**HASHES, "MAINSTAY_PER": "rank"},
    "hashes, memory": {**HASHES, **MEMORY},
    "snapshot": {**SNAPSHOT, "MAINSTAY_PER": "node"},
    "snapshot, memory": {**SNAPSHOT, **MEMORY},
    "snapshot, small pool": {**SNAPSHOT, "MAINSTAY_POOL_BYTES": 2**20},
    "compressed": {"MAINSTAY_COMPRESS": "zstd"},
    "pages, compressed": {**PAGES, "MAINSTAY_COMPRESS": "lz4", "MAINSTAY_KEEP": 2},
    "pages, compressed, memory": {**PAGES, **MEMORY, "MAINSTAY_COMPRESS": "zstd"},
    "snapshot, compressed": {**SNAPSHOT, "MAINSTAY_COMPRESS": "lz4"},
    "both": BOTH,
    "both, memory": {**BOTH, **MEMORY, "MAINSTAY_TRACK": "hashes"},
}
OFTEN = ["pages, compressed, memory"]
KILLS, CAMPAIGN_KILLS = 3, 400  # of each


class Killed:
    """One space, and its promises."""

    def __init__(self, folder, mpi, settings, seed):
        self.folder, self.mpi, self.settings, self.random = folder, mpi, settings, random.Random(seed)
        self.program = build_c(["memory.c"], "memory", "-pthread", mpi=mpi)
        self.newest = self.sure = 0

    def job(self, steps):
        settings = {**self.settings, "OMPI_MCA_btl_sm_backing_directory": self.folder}
        variables = ["env", *(f"{name}={value}" for name, value in settings.items())]
        command = [*variables, self.program, self.folder / "space", steps, self.random.randrange(10**6)]
        return Job(RANKS, command, self.folder, LIMIT_S, self.mpi)

    def begun(self, lines):
        """Waits until the job has verified its restored state."""
        for line in lines:
            assert not line.startswith("WRONG"), line
            if match := re.match(r"restored (\d+) step (\d+)$", line):
                assert int(match[1]) >= self.sure, f"revision {self.sure} was sure, and {match[1]} came back"
                return
        raise AssertionError("the job restored nothing, and ended")

    def follow(self, lines, until=None):
        """Follows the job to the end, or until this number of further revisions is safe."""
        if until == 0:
            return
        for line in lines:
            # A lost peer and a cut last line are no errors.
            assert not re.match(r"WRONG rank \d+, step \d+: \w+: \S+ ", line) or "GROUP_FAILED" in line, line
            if match := re.match(r"sure (\d+)$", line):
                self.sure = max(self.sure, int(match[1]))
                until = until and until - 1
                if until == 0:
                    return

    def kill(self, latest_s):
        with self.job(ENDLESS) as job:
            lines = job.lines()
            self.begun(lines)
            self.follow(lines, self.random.randrange(3))
            time.sleep(self.random.uniform(0, latest_s))
            for rank in self.random.choice([[0], [1], [0, 1]]):
                with suppress(ProcessLookupError):  # the launcher was faster, after the first of two
                    job.kill_rank(rank)
            self.follow(lines)
            assert job.wait() != 0, job.tail()

    def end(self):
        with self.job(0) as job:
            lines = job.lines()
            self.begun(lines)
            self.follow(lines)
            assert job.wait() == 0, job.tail()


def is_killed(mpi, folder, name, kills, seed="", latest_s=0):
    job = Killed(folder, mpi, SETTINGS[name], f"{name} {seed}")
    for _ in range(kills):
        job.kill(latest_s)
    job.end()
    assert job.sure > 0, "each was killed before anything was sure"


@pytest.mark.parametrize("name", [*OFTEN, *rarely(*(name for name in SETTINGS if name not in OFTEN))])
def test_the_memory_comes_back_as_it_was(mpi, scratch, name):
    is_killed(mpi, scratch, name, KILLS)


@pytest.mark.campaign
@pytest.mark.parametrize("name", SETTINGS)
def test_the_memory_comes_back_again_and_again(mpi, scratch, name):
    seed = time.time_ns()
    print(f"\nseed {seed}", flush=True)
    is_killed(mpi, scratch, name, CAMPAIGN_KILLS, seed, LATEST_S)
