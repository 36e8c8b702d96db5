"""The staged data of a killed job comes back with the next start, unless the job has gone on elsewhere meanwhile."""

import pytest
from command import mainstay as told_by
from programs import build_c, build_faults
from staged import Place, ends_well, pool_directory
from ways import WAYS, name_of, rarely

RANKS = 2


@pytest.fixture(params=[WAYS[3]], ids=name_of)
def place(request, scratch):
    faults = build_faults()
    return Place(scratch, faults, build_c(["inject.c"], "inject.so", "-shared", "-fPIC"), request.param)


# With this stage, before t2 the data is only in the pool, and all of it is.
POOL = ["set:stage=1"]
NODE = ["set:stage=3", f"set:threshold_bytes={1 << 20}", "set:small_bytes=1"]


@pytest.mark.parametrize(
    ("place", "settings"),
    [*rarely(*zip(WAYS[:3], [POOL, NODE, POOL])), (WAYS[3], NODE), *rarely(*zip(WAYS[4:], [POOL, NODE]))],
    indirect=["place"],
    ids=[f"{name_of(way)}-{stage}" for way, stage in zip(WAYS, 3 * ["pool", "node"])],
)
def test_a_start_completes_what_was_staged(place, settings):
    with pool_directory() as pools:
        place.staged_and_killed(pools, RANKS, *settings)
        ends_well(place.run(pools, RANKS, "open", "restore", "holds:2", "save:3", "wait", "close"))
        assert not list(pools.iterdir())


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("then", "last"),
    [(["save:7", "wait", "save:8", "wait"], 8), ([], 1)],
    ids=["two revisions later", "opened in between"],
)
def test_a_late_start_does_not_bring_back_what_the_job_went_on_without(place, then, last):
    with pool_directory() as first, pool_directory() as second:
        place.staged_and_killed(first, RANKS)
        ends_well(place.run(second, RANKS, "open", "restore", "holds:1", *then, "close"))
        assert not list(second.iterdir())
        ends_well(place.run(first, RANKS, "open", "restore", f"holds:{last}", "save:9", "wait", "close"))
        assert not list(first.iterdir()), "pools that no job can claim are removed"
        ends_well(place.run(second, RANKS, "open", "restore", "holds:9", "close"))


@pytest.mark.campaign
def test_a_killed_job_that_went_on_elsewhere_and_was_killed_there_too(place):
    with pool_directory() as first, pool_directory() as second:
        place.staged_and_killed(first, RANKS)
        place.staged_and_killed(second, RANKS)  # from revision 1 on, under a newer lineage
        ends_well(place.run(first, RANKS, "open", "restore", "holds:1", "close"))
        assert not list(first.iterdir())
        ends_well(place.run(second, RANKS, "open", "restore", "holds:1", "close"))
        assert not list(second.iterdir())


@pytest.mark.campaign
@pytest.mark.parametrize("copies", [1, 2])
def test_the_command_completes_what_was_staged_in_memory(place, copies, monkeypatch):
    """In memory the portions of the level are the staged data: only the roots that lead to it are missing."""
    with pool_directory() as pools:
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", str(pools))
        levels = {"MAINSTAY_MEMORY": "auto", "MAINSTAY_MEMORY_COPIES": copies, "MAINSTAY_PFS_EVERY": 0}
        place.staged_and_killed(pools, RANKS, INJECT_SPACE=pools, **levels)
        assert whole(place) == {1: copies * ["memory"]}
        document = told_by("salvage", place.space)
        assert [shard["revision"] for shard in document["shards"]] == RANKS * [2], document
        assert whole(place)[2] == ["memory"]
        assert told_by("verify", place.space)["good"]
        ends_well(place.run(pools, RANKS, "open", "restore", "holds:2", "save:3", "wait", "close", **levels))
        assert not list(pools.iterdir())


def whole(place):
    """The levels, and their copies, with each complete revision."""
    revisions = told_by("ls", place.space)["revisions"]
    found = {one["revision"]: [level["level"] for level in one["levels"] if level["whole"]] for one in revisions}
    return {revision: levels for revision, levels in found.items() if levels}
