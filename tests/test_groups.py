"""A session belongs to any communicator: half of the ranks, one alone, or two at once."""

import re

import pytest
from jobs import run
from programs import build_c

RANKS = 4
STEPS = 40
DEATH = 21  # after the checkpoint of step 20 has begun, so that the one before is complete everywhere
OPENED = re.compile(r"rank (\d+): (\S+): revision (\d+), step (\d+)")


@pytest.fixture(scope="module")
def groups(mpi):
    return build_c(["groups.c"], "groups", mpi=mpi)


def opened(output):
    """The restored revision and step of each rank, in the order of its openings: {(rank, space): [(revision,
    step)]}."""
    found = {}
    for rank, space, revision, step in OPENED.findall(output):
        found.setdefault((int(rank), space), []).append((int(revision), int(step)))
    return found


def dies_and_comes_back(program, mpi, scratch, mode):
    """The openings before the death of a rank, and after it."""
    command = [program, mode, scratch / "spaces", STEPS]
    status, before = run(RANKS, [*command, DEATH], scratch, mpi=mpi)
    # The job must end: the ranks with a dead peer do not hang in Mainstay's next call.
    assert status != 0 and "WRONG" not in before, before
    status, after = run(RANKS, command, scratch, mpi=mpi)
    assert status == 0 and "WRONG" not in after, after
    return opened(before), opened(after)


def test_two_coupled_codes_save_to_a_space_each(groups, mpi, scratch):
    before, after = dies_and_comes_back(groups, mpi, scratch, "coupled")
    air, sea = {(2, "air"), (3, "air")}, {(0, "sea"), (1, "sea")}
    # The sea may not have begun yet when the air dies.
    assert set(before) - sea == air and set(after) == air | sea
    assert set(map(tuple, before.values())) == {((0, 0),)}
    for one, other in [((0, "sea"), (1, "sea")), ((2, "air"), (3, "air"))]:
        assert after[one] == after[other], "the ranks of one code restored different revisions"
    # The air died at step 21. The sea exchanges no data with it, and may have been at any step.
    assert after[2, "air"][0][1] in (15, 20) and after[0, "sea"][0][1] in range(0, STEPS + 1, 5)


@pytest.mark.campaign
def test_a_rank_alone(groups, mpi, scratch):
    _, after = dies_and_comes_back(groups, mpi, scratch, "self")
    assert set(after) == {(rank, f"rank-{rank}") for rank in range(RANKS)}
    assert after[3, "rank-3"][0][1] in (15, 20)


@pytest.mark.campaign
def test_two_sessions_in_one_program(groups, mpi, scratch):
    _, after = dies_and_comes_back(groups, mpi, scratch, "two")
    for rank in range(RANKS):
        assert after[rank, "often"] == after[0, "often"] and after[0, "often"][0][1] in (18, 20)
        assert after[rank, "seldom"] == after[0, "seldom"] and after[0, "seldom"][0][1] in (15, 20)


def test_a_program_that_closes_and_opens_again(groups, mpi, scratch):
    status, output = run(RANKS, [groups, "reopen", scratch / "spaces", STEPS], scratch, mpi=mpi)
    assert status == 0 and "WRONG" not in output, output
    half = STEPS // 2
    for rank in range(RANKS):
        assert opened(output)[rank, "again"] == [(0, 0), (half // 5, half)]
