"""Few ranks write for all: in real jobs an aggregator or one of its members is killed."""

import pytest
from test_kills import ROUNDS, Space, folder, hit, victim  # noqa: F401 (fixtures)

AGGREGATOR, MEMBERS = 0, (1, 2, 3)
TARGETS = [("program", "staging"), ("program", "waiting"), ("io", "data write")]


@pytest.fixture(autouse=True)
def aggregators(monkeypatch):
    monkeypatch.setenv("MAINSTAY_AGGREGATORS", "1")


@pytest.mark.campaign
def test_kills_of_who_writes_and_of_whom_it_writes_for(victim, mpi, folder):  # noqa: F811
    """Between t1 and t2 and between t2 and t3: each job that follows finds the newest complete revision, whole."""
    space, targets = Space(victim, mpi, folder, 1, "pool"), TARGETS
    space.killed("one rank", "program", "staging", rank=2)
    for attempt in range(1 + ROUNDS):
        for target in targets:
            space.killed("one rank", *target, rank=AGGREGATOR, surely=attempt > 0)
            assert not any(space.board.writes(rank) for rank in MEMBERS), "a member wrote"
        if not (targets := [target for target in targets if not hit(space.died, *target)]):
            break
    space.ends_well()
    assert not targets, f"never hit in {targets}"
