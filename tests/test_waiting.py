"""Ranks that wait for slower ones leave the processors to ranks that still write."""

import os
import time
from pathlib import Path

import pytest
from mpi import OPENMPI
from paused import Paused
from programs import build_c, build_faults, build_python
from staged import pool_directory

pytestmark = pytest.mark.campaign  # it measures what the processors are given to

RANKS = 2
CROWD = 32
WAITED_S = 1
PART_MAX = 0.25  # of that time, on a processor


@pytest.fixture(scope="module")
def shim():
    return build_c(["inject.c"], "inject.so", "-shared", "-fPIC")


def process_of(rank, job):
    """Its folder of /proc."""
    found = OPENMPI.ranks(job.process.pid)
    try:
        lines = Path(f"/proc/self/fdinfo/{found[rank]}").read_text().splitlines()
        pid = next(line.split()[1] for line in lines if line.startswith("Pid:"))
    finally:
        for pidfd in found.values():
            os.close(pidfd)
    return Path("/proc", pid)


def processor_s(rank, job):
    """The processor time of all threads of `rank` since its start."""
    user, system = (process_of(rank, job) / "stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def looks(rank, job):
    """How often the program's own thread of `rank` has slept since its start."""
    lines = (process_of(rank, job) / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@pytest.fixture(scope="module", params=["c", "python"])
def faults(request):
    if request.param == "python":
        return build_python("faults.py", "faults-python")
    return build_faults()


def test_a_rank_that_waits_for_another_sleeps(faults, shim, scratch):
    """It polled in MPI, which on a full machine took as much processor time as the writing."""
    spent = while_waiting(processor_s, faults, shim, scratch, RANKS, late=1, waiting=0)
    assert spent < PART_MAX * WAITED_S, f"{spent} s of {WAITED_S}"


def test_many_ranks_on_few_processors_look_less_often(faults, shim, scratch):
    """64 ranks on each processor spent half of it on polling for one of them. On more than 6 processors 32 ranks do not
    crowd."""
    looked = while_waiting(looks, faults, shim, scratch, CROWD, late=CROWD - 1, waiting=0)
    pause_s = max(500e-6, 100e-6 * CROWD / os.cpu_count())
    assert looked < 1.2 * WAITED_S / pause_s


def while_waiting(count, faults, shim, scratch, ranks, late, waiting):
    """The increase of the count of rank `waiting` while rank `late` keeps it waiting."""
    space, held = scratch / "space", scratch / "held"
    with pool_directory() as pools:
        # No sync of that rank returns before the file `held` is gone.
        shim = {
            "LD_PRELOAD": shim,
            "INJECT": "sync:hold",
            "INJECT_RANK": late,
            "INJECT_WHEN": held,
            "INJECT_SPACE": space,
        }
        variables = [f"{name}={value}" for name, value in {**shim, "MAINSTAY_POOL_DIRECTORY": pools}.items()]
        commands = ["open", "save:1", "wait", f"make:{held}", "save:2", "pause", "wait", "close"]
        with Paused(ranks, ["env", *variables, faults, space, *commands], scratch) as job:
            try:
                job.until_all("pause")
                job.go_on()
                time.sleep(WAITED_S)
                before, since = count(waiting, job), time.monotonic()
                time.sleep(WAITED_S)
                # On a busy machine a sleep takes longer.
                risen = (count(waiting, job) - before) * WAITED_S / (time.monotonic() - since)
                assert not job.has_said("wait", more_than=ranks), job.said
            finally:
                held.unlink(missing_ok=True)
            job.until_all("end")
    assert {status for _, _, status, _ in job.said} == {"OK"}, job.said
    return risen
