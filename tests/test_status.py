"""The state of real jobs by `mainstay status`: running, killed, restarted, and ended; and with saves that keep
failing."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress

import pytest
from command import LIMIT_S, MAINSTAY
from command import mainstay as told_by
from mpi import OPENMPI
from paused import Paused
from programs import build_faults
from staged import pool_directory
from ways import rarely, spread

RANKS = 4
TWO_NODES = {"per": "auto", "nodes": 2}  # ranks 0 and 2 on the first
ALARM = 5


@pytest.fixture
def pools(monkeypatch):
    with pool_directory() as folder:
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", str(folder))
        monkeypatch.setenv("MAINSTAY_MEMORY", "auto")
        monkeypatch.setenv("MAINSTAY_MEMORY_COPIES", "1")
        monkeypatch.setenv("MAINSTAY_PFS_EVERY", "2")
        monkeypatch.setenv("MAINSTAY_KEEP", "1")
        yield folder


@pytest.fixture(scope="module")
def faults():
    return build_faults()


def job(faults, scratch, *commands):
    return Paused(RANKS, spread(TWO_NODES, [faults, scratch / "space", *commands]), scratch)


def says_itself(space):
    """The newest revision of each level, in the job's report."""
    levels = json.loads((space / "status").read_text())["levels"]
    return [level["complete"][0]["revision"] if level["complete"] else None for level in levels]


def kill(job):
    """Kills all ranks at once."""
    for pidfd in OPENMPI.ranks(job.process.pid).values():
        with suppress(ProcessLookupError):  # ended by the launcher, as another one is gone
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)


def saves(*numbers):
    return [word for number in numbers for word in (f"save:{number}", "wait")]


def status(space, code=0):
    return told_by("status", space, code=code)


def newest(document):
    return {
        level["level"]: next((saved["revision"] for saved in level["complete"]), None) for level in document["levels"]
    }


def losses(document):
    return {loss["node"] or loss["of"]: (loss["revision"], loss["level"]) for loss in document["losses"]}


def once(is_so, space, code=0):
    """The job's report is in a file a moment later, and is updated once a second."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so(document := status(space, code)):
        assert time.monotonic() < deadline, document
        time.sleep(0.1)
    return document


def test_running_killed_begun_again_and_ended(faults, scratch, pools):
    space = scratch / "space"
    with job(faults, scratch, "open", *saves(1, 2, 3), "pause", "close") as running:
        running.until_all("pause")
        # The command sees the third revision before the job has reported it.
        once(lambda _: says_itself(space) == [3, 2], space)
        document = status(space)
        assert newest(document) == {"memory": 3, "space": 2}
        assert document["in_use"] and not document["job"]["ended"] and document["alarms"] == []
        nodes = [
            [node["name"], [tuple(ranks.values()) for ranks in node["ranks"]]] for node in document["job"]["nodes"]
        ]
        assert nodes == [["0", [(0, 1), (2, 3)]], ["1", [(1, 2), (3, 4)]]]
        of_node = (2, "space")
        assert losses(document) == {"processes": (3, "memory"), "0": of_node, "1": of_node, "all_nodes": of_node}
        page = subprocess.run([MAINSTAY, "status", space], capture_output=True, text=True, timeout=LIMIT_S).stdout
        assert "the death of the job's processes: survived, revision 3 from memory\n" in page
        assert "the loss of any one of the 2 nodes 0, 1: survived, revision 2 from space, not the newest\n" in page
        kill(running)
    document = once(lambda document: not document["in_use"], space)
    assert not document["clean"] and not document["job"]["ended"]
    assert newest(document) == {"memory": 3, "space": 2} and document["lost"] == []
    # The memory of one node is lost.
    shutil.rmtree(next(pools.glob("mainstay-level-*")))
    document = status(space)
    assert newest(document) == {"memory": None, "space": 2}
    assert document["lost"] == ["revision 3 in memory: the data on this node is gone"]
    assert losses(document)["processes"] == (2, "space")
    with job(faults, scratch, "open", "restore", "pause", *saves(4), "pause", "close") as again:
        again.until_all("pause")
        document = once(lambda document: document["lost"] and document["job"]["lineage"] > 1, space)
        assert "revision 3 in memory" in document["lost"][0], document["lost"]
        again.go_on()
        again.until_all("pause")
        once(lambda document: newest(document) == {"memory": 4, "space": 4}, space)
        again.go_on()
        again.until_all("close")
    document = once(lambda document: document["job"]["ended"], space)
    assert newest(document) == {"memory": None, "space": 4} and document["clean"] and not list(pools.iterdir())


def test_the_loss_of_a_node_is_survived_by_its_copies(faults, scratch, pools, monkeypatch):
    monkeypatch.setenv("MAINSTAY_MEMORY_COPIES", "2")
    space = scratch / "space"
    with job(faults, scratch, "open", *saves(1, 2, 3), "pause", "close") as running:
        running.until_all("pause")
        once(lambda document: losses(document).get("0") == (3, "memory"), space)
        document = status(space)
        assert losses(document)["1"] == losses(document)["processes"] == (3, "memory")
        assert losses(document)["all_nodes"] == (2, "space")
        holders = document["levels"][0]["copies"][0]["holders"]
        # Ranks 0 and 2 are on one node, 1 and 3 on the other.
        assert sorted(holders) == [0, 1, 2, 3] and all((holder + rank) % 2 for rank, holder in enumerate(holders))
        running.go_on()
        running.until_all("close")
    assert not list(pools.iterdir())


@pytest.mark.campaign
def test_what_is_left_on_several_nodes_together_is_not_lost(faults, scratch, pools, monkeypatch):
    monkeypatch.setenv("MAINSTAY_MEMORY_COPIES", "2")
    space = scratch / "space"
    with job(faults, scratch, "open", *saves(1, 2, 3), "pause", "close") as running:
        running.until_all("pause")
        once(lambda document: says_itself(space) == [3, 2], space)
        kill(running)
    once(lambda document: not document["in_use"], space)
    # One node loses everything: its own shards, and the copies of the other's shards.
    node = next(pools.glob("mainstay-level-*-copy1-*")).name.rpartition("-")[2]
    gone = list(pools.glob(f"mainstay-level-*-{node}"))
    assert len(gone) == 2
    for directory in gone:
        shutil.rmtree(directory)
    document = status(space)
    assert len(document["lost"]) == 2 and document["alarms"] == []
    # Neither memory nor the copies there are complete alone.
    assert newest(document) == {"memory": None, "space": 2}
    survived = losses(document)
    assert survived["processes"] == (3, "memory")
    # One of the two nodes has no data that could be lost.
    assert sorted([survived["0"], survived["1"]]) == [(2, "space"), (3, "memory")]
    page = subprocess.run([MAINSTAY, "status", space], capture_output=True, text=True, timeout=LIMIT_S).stdout
    assert "the death of the job's processes: survived, revision 3 from memory\n" in page
    assert page.count("survived, revision 2 from space, not the newest\n") == 2  # of the other node, and of all
    with job(faults, scratch, "open", "restore", "close") as again:
        again.until_all("close")
    assert losses(once(lambda document: document["job"]["ended"], space))["processes"] == (3, "space")


@pytest.mark.parametrize("lies", ["in the space", *rarely("in memory")])
def test_a_level_that_keeps_failing_is_shouted(faults, scratch, pools, monkeypatch, lies):
    """Also if the failing level cannot even take the report."""
    monkeypatch.setenv("MAINSTAY_PORTION_BYTES", str(1 << 50))
    space, prometheus = scratch / "space", scratch / "mainstay.prom"
    with job(faults, scratch, "open", *saves(1, 2), "pause", *saves(3, 4, 5, 6, 7, 8), "pause") as running:
        running.until_all("pause")
        once(lambda document: document["levels"][1]["failures_in_a_row"] == 1, space)
        if lies == "in memory":
            (space / "status.unfinished").mkdir()
        running.go_on()
        running.until_all("pause")
        # The second failure in a row is an alarm, and so is the fourth.
        wait_for_alarm(space)
        document = once(lambda document: document["levels"][1]["failures_in_a_row"] == 4, space, ALARM)
        assert newest(document) == {"memory": 8, "space": None}
        assert losses(document)["0"] == (None, None) and losses(document)["processes"] == (8, "memory")
        (alarm,) = document["alarms"]
        assert "the level space did not get 4 revisions in a row; none is there: " in alarm
        words = [MAINSTAY, "status", space, "--prometheus", prometheus]
        assert subprocess.run(words, stdout=subprocess.DEVNULL, timeout=LIMIT_S).returncode == ALARM
        assert f'mainstay_alarm{{space="{space}"}} 1\n' in prometheus.read_text()
        shouted = [line for line in running.other if "saving fails" in line]
        assert len(shouted) == 2 and "did not get 2 revisions in a row" in shouted[0] and " 4 " in shouted[1], (
            running.other
        )
    assert bool(list(pools.glob("mainstay-level-*/status"))) == (lies == "in memory")
    if lies == "in memory":
        (space / "status.unfinished").rmdir()


def wait_for_alarm(space):
    deadline = time.monotonic() + LIMIT_S
    while subprocess.run([MAINSTAY, "status", space], stdout=subprocess.DEVNULL, timeout=LIMIT_S).returncode != ALARM:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_job_with_one_level_writes_no_file(faults, scratch, pools, monkeypatch):
    monkeypatch.delenv("MAINSTAY_MEMORY")
    with job(faults, scratch, "open", *saves(1, 2), "pause", "close") as running:
        running.until_all("pause")
        document = status(scratch / "space")
        assert document["in_use"] and document["job"] is None and newest(document) == {"space": 2}
        running.go_on()
        running.until_all("close")
    assert not (scratch / "space" / "status").exists()
