"""Processes with ranks in slots die one after another in the running job, also during a recovery. The others go on. If MPI
cannot go on, the job is started again. The results and files are those of an undisturbed run."""

import random

import pytest
from mpi import SURVIVING
from slots import build, in_slots, killer
from staged import pool_directory
from test_ranks_kills import EVENTS, PROGRAMS, RANKS, outcome

NODES, RESTARTS = "0011", 2
# The events of a recovery, each with its largest number in one recovery.
IN_RECOVERY = {"turn": 2000, "write": 20, "read": 30, "map": 200}
# Revisions are only in the memory of two nodes, or only in the space.
PLACES = {"memory": {"MAINSTAY_MEMORY": "auto", "MAINSTAY_PFS_EVERY": "0"}, "space": {}}


def die_one_after_another(recovery, place, seed, scratch):
    chance = random.Random(f"{recovery} {place} {seed}")
    source, steps, files = PROGRAMS[chance.choice(list(PROGRAMS))]
    command = [build(source), steps]
    (scratch / "calm").mkdir()
    calm = outcome(*in_slots(command, RANKS, scratch / "calm"), scratch / "calm", files)
    first, second = chance.sample(range(len(NODES)), 2)
    once, again = chance.choice(["turn", "write"]), chance.choice(list(IN_RECOVERY))
    kills = {
        "KILL_AT": f"{once}:{chance.randint(1, EVENTS[once])}",
        "KILL_RANK": first,
        "KILL_AGAIN_AT": f"{again}:{chance.randint(1, IN_RECOVERY[again])}",
        "KILL_AGAIN_RANK": second,
        "KILL_NOTE": scratch / "note",
    }
    options = ("--in-job", "--recovery", recovery, "--every", "100ms")
    with pool_directory() as pools:
        for node in set(NODES):
            (pools / node).mkdir()
        variables = {**PLACES[place], **kills, "LD_PRELOAD": killer(), "NODES": NODES, "POOLS": pools}
        done = in_slots(command, RANKS, scratch, SURVIVING, len(NODES), options, RESTARTS, **variables)
    assert outcome(*done, scratch, files) == calm, done[1]
    return [note.exists() for note in (scratch / "note", scratch / "note.again")]


@pytest.mark.parametrize("place", PLACES)
def test_processes_die_in_a_recovery(place, scratch):
    assert all(die_one_after_another("shrink", place, 1, scratch))


@pytest.mark.campaign
@pytest.mark.parametrize("recovery", ["shrink", "replace"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(2, 52))
def test_processes_die_in_many_recoveries(recovery, place, seed, scratch):
    die_one_after_another(recovery, place, seed, scratch)
