"""`mainstay copy` takes a running or killed job's revisions to another directory, and the job goes on from there; the
copy is killed again and again."""

import random
import subprocess
import time

import numpy
import pytest
from command import MAINSTAY, arrays, mainstay
from job import Job
from jobs import run
from limits import LIMIT_S, until
from ways import rarely

RANKS = 3
EVERY = 1000  # steps: long enough for a copy of a revision between two checkpoints, also under load
WAYS = {
    "default": {},
    "a file for each rank, what changed": {"KEEP": 3, "PER": "rank", "CAPTURE": "incremental"},
    "a file a node": {"KEEP": 2, "PER": "node"},
    "levels": {"KEEP": 2, "MEMORY": "{scratch}/memory", "MEMORY_COPIES": 1, "PFS_EVERY": 2, "MEMORY_AFTER": "kept"},
}


def with_settings(way, scratch, command):
    return ["env", *(f"MAINSTAY_{key}={value}".format(scratch=scratch) for key, value in way.items()), *command]


def complete(space):
    return [r["revision"] for r in mainstay("ls", space)["revisions"] if r["state"] != "incomplete"]


def copied(space, other):
    """Revisions that a copy has made, and those that were there."""
    document = mainstay("copy", space, other)
    return [r["revision"] for r in document["revisions"] if r["state"] in ("copied", "was_there")]


def is_as_in(space, other, revision, scratch):
    """A revision is exported from both, and is the same."""
    each = []
    for number, of in enumerate((space, other)):
        folder = scratch / f"out-{revision}-{number}"
        each.append(arrays(folder, mainstay("export", of, folder, "--revision", revision)))
    one, two = each
    assert one.keys() == two.keys() and one
    assert all(one[key].dtype == two[key].dtype and numpy.array_equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("way", ["levels", *rarely(*(way for way in WAYS if way != "levels"))])
def test_a_job_goes_on_from_the_copy(jacobi3d, scratch, way):
    space, other = scratch / "space", scratch / "made" / "other"
    endless = with_settings(WAYS[way], scratch, jacobi3d(space, 10**9, EVERY))
    with Job(RANKS, endless, scratch, LIMIT_S) as job:
        lines = job.lines()
        for _ in range(4):
            assert any(line.startswith("step ") for line in lines)
        beside = copied(space, other)
        assert beside, "nothing was copied beside the job"
        assert mainstay("verify", other)["good"]
        assert mainstay("ls", space)["holds"] == []
        until(lambda: complete(space)[0] > max(beside) or job.process.poll() is not None)
        assert job.process.poll() is None, job.tail()
        job.kill_rank(1)
        assert job.wait() != 0, job.tail()
    # The staged data is completed first: the copy has all of it.
    salvaged = subprocess.run([MAINSTAY, "salvage", space], capture_output=True, text=True, timeout=LIMIT_S)
    # Some ranks may not have staged their last one whole when the job died.
    is_lacking = salvaged.returncode == 1 and "of 3 shards these are missing" in salvaged.stdout
    assert (salvaged.returncode == 0 or is_lacking) and not salvaged.stderr, salvaged
    newest = complete(space)[0]
    there = copied(space, other)
    assert there[0] == newest > max(beside)
    assert mainstay("verify", other)["good"]
    for revision in there:
        is_as_in(space, other, revision, scratch)
    on = with_settings(WAYS[way], scratch, jacobi3d(other, (newest + 2) * EVERY, EVERY))
    status, output = run(RANKS, on, scratch)
    assert status == 0 and f"restored revision {newest}," in output, output
    assert complete(other)[0] > newest
    # The job has saved to the copy since: it is a space of its own now.
    assert "directory of its own" in mainstay("copy", space, other, code=2)


@pytest.mark.campaign
def test_a_copy_that_is_killed_again_and_again_is_made_in_the_end(jacobi3d, scratch):
    space, other = scratch / "space", scratch / "other"
    status, output = run(RANKS, with_settings({"KEEP": 4}, scratch, jacobi3d(space, 6 * EVERY, EVERY)), scratch)
    assert status == 0, output
    revisions = complete(space)
    chance, killed = random.Random(7), 0
    for _ in range(25):
        process = subprocess.Popen([MAINSTAY, "copy", space, other], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        killed += process.wait(LIMIT_S) != 0
        process.stderr.close()
        if (other / "lock").exists():
            found = complete(other)
            assert set(found) <= set(revisions)
            assert not found or mainstay("verify", other)["good"]
    assert killed
    assert copied(space, other) == revisions
    for revision in revisions:
        is_as_in(space, other, revision, scratch)
    status, output = run(RANKS, jacobi3d(other, 7 * EVERY, EVERY), scratch)
    assert status == 0 and f"restored revision {revisions[0]}," in output, output
