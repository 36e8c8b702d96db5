"""`mainstay hold`, `export`, `release` and `prune` on the space of a real job, while it runs and after."""

import numpy
from command import arrays, mainstay
from job import Job
from jobs import run
from limits import LIMIT_S, until

RANKS = 3
EVERY = 50  # steps: long enough for an export beside them that nothing holds


def complete(space):
    return [r["revision"] for r in mainstay("ls", space)["revisions"] if r["state"] != "incomplete"]


def same(one, other):
    return one.keys() == other.keys() and all(
        one[key].dtype == other[key].dtype and one[key].shape == other[key].shape
        and one[key].tobytes() == other[key].tobytes()
        for key in one
    )  # fmt: skip


def test_what_is_held_of_a_running_job_stays_and_is_exported_bit_for_bit(jacobi3d, scratch):
    space = scratch / "space"
    with Job(RANKS, jacobi3d(space, 10**9, EVERY), scratch, LIMIT_S) as job:
        lines = job.lines()
        for _ in range(3):
            assert any(line.startswith("step ") for line in lines)
        held = mainstay("hold", space, "--note", "a test", "--wait", "60s")
        assert held["counts"], held
        revision = held["hold"]["revision"]
        beside = mainstay("export", space, scratch / "beside", "--revision", revision)
        newest = mainstay("export", space, scratch / "newest")
        assert newest["revision"] >= revision
        until(lambda: complete(space)[0] > revision + 5 or job.process.poll() is not None)
        listed = mainstay("ls", space)
        assert [hold["revision"] for hold in listed["holds"]] == [revision], "an export left its hold"
        assert listed["in_use"] and listed["revisions"][0]["revision"] > revision + 5
        assert [r["revision"] for r in listed["revisions"] if r["held"]] == [revision]
        assert "in use" in mainstay("prune", space, "--keep-last", 1, code=4)
        job.kill_rank(1)
        assert job.wait() != 0, job.tail()

    # It outlives the next job too, and that one goes on from the newest.
    status, output = run(RANKS, jacobi3d(space, 1, EVERY), scratch)
    assert status == 0, output
    after = mainstay("export", space, scratch / "after", "--revision", revision)
    mainstay("prune", space, "--keep-last", 1)
    left = complete(space)
    assert len(left) == 2 and left[1] == revision, left
    again = mainstay("export", space, scratch / "again", "--revision", revision)

    # The same step of an undisturbed job.
    step = int(numpy.load(scratch / "after" / "shard" / "0000" / "step.npy"))
    assert step == revision * EVERY
    status, output = run(RANKS, jacobi3d(scratch / "calm", step, EVERY), scratch)
    assert status == 0, output
    calm = arrays(scratch / "calm-out", mainstay("export", scratch / "calm", scratch / "calm-out"))
    assert {key[1] for key in calm} == {"step", "temperature"} and len(calm) == 2 * RANKS
    assert calm[0, "temperature"].dtype == numpy.float64 and calm[0, "temperature"].ndim == 3
    for folder, document in [("beside", beside), ("after", after), ("again", again)]:
        assert same(arrays(scratch / folder, document), calm), folder
    raw = mainstay("export", space, scratch / "raw", "--format", "raw", "--item", "temperature", "--revision", revision)
    for file in raw["files"]:
        assert (scratch / "raw" / file["file"]).read_bytes() == calm[file["shard"], "temperature"].tobytes()

    mainstay("release", space, "--revision", revision)
    mainstay("prune", space, "--keep-last", 1)
    assert complete(space) == left[:1]
    status, output = run(RANKS, jacobi3d(space, 1, EVERY), scratch)
    assert status == 0 and "restored revision" in output, output
