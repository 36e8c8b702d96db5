"""On CephFS, with several mounts and a job over all of them: what a checkpoint costs the metadata servers."""

import pytest
from cephfs import CephFs, missing
from paused import Paused
from programs import build_c

pytestmark = pytest.mark.cephfs

MOUNTS = 4
FURTHER = 9  # checkpoints, as published
MESSAGES_MAX = 10  # capability messages and journal events together, in all of them


@pytest.fixture(scope="module")
def ceph():
    if why := missing():
        pytest.skip(f"no CephFS here: {why}")
    with CephFs(MOUNTS) as made:
        yield made


@pytest.fixture(scope="module")
def faults():
    return build_c(["faults.c"], "faults", "-Wno-misleading-indentation")


def over_mounts(ceph, ranks, program, space, *commands):
    """The words that run `program` on `ranks` ranks, as many on each mount, each of which is a node."""
    script = (
        f"node=$((OMPI_COMM_WORLD_RANK * {MOUNTS} / {ranks})) program=$0;"
        f'MAINSTAY_NODE=$node exec "$program" {ceph.home}/mnt.$node/{space} "$@"'
    )
    return ["sh", "-c", script, program, *commands]


def saves(*numbers):
    return [word for number in numbers for word in (f"save:{number}", "wait")]


@pytest.mark.parametrize("ranks", [4, 16])
def test_a_checkpoint_asks_the_metadata_server_nothing(ceph, faults, scratch, ranks):
    commands = ["open", *saves(1), "pause", *saves(*range(2, 2 + FURTHER)), "pause", "close"]
    with Paused(ranks, over_mounts(ceph, ranks, faults, f"space-{ranks}", *commands), scratch) as job:
        job.until_all("pause")
        before = ceph.counters()
        job.go_on()
        job.until_all("pause")
        cost = ceph.counters() - before
        job.go_on()
        job.until_all("end")
    assert {status for _, _, status, _ in job.said} == {"OK"}, job.said
    assert cost["requests"] == 0, cost
    assert cost["capability messages"] + cost["journal events"] <= MESSAGES_MAX, cost
