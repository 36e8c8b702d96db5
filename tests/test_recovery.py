"""Jobs that go on when ranks fail, by mainstay_run and by its single calls, have the result of an undisturbed job
after any death."""

import contextlib
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from crashes import unless_mpi_crashes
from jobs import run
from limits import LIMIT_S
from mpi import MPICH
from recovering import HEARTBEAT, RANKS, Recovering, begun_anew
from staged import pool_directory
from ways import rarely

# The fate of the dead ranks' places: the setting `recovery`, and the number of waiting ranks.
SPARE, SPAWN, SHRINK = {"spares": 1}, {}, {"way": "shrink"}
BOTH = pytest.mark.parametrize("how", [SPARE, SHRINK], ids=["replace", "shrink"])
# The other one in the campaign.
ONE = pytest.mark.parametrize("how", [SPARE, *rarely(SHRINK)], ids=["replace", "shrink"])
OTHER = pytest.mark.parametrize("how", [*rarely(SPARE), SHRINK], ids=["replace", "shrink"])
KILLS, KILLED_JOBS = 5, 4  # each in both modes
CAMPAIGN_JOBS = 100  # of each


@pytest.fixture
def recovering(scratch):
    with pool_directory() as nodes:
        yield Recovering(scratch, nodes)


@pytest.mark.parametrize("loop", ["run", *rarely("bare")])
@pytest.mark.parametrize("how", [SPARE, SPAWN, SHRINK], ids=["spare", "spawn", "shrink"])
def test_a_rank_is_lost(recovering, how, loop):
    recovering.goes_on("kill:1@step,4", loop=loop, **how)


@pytest.mark.campaign
@ONE
def test_a_layout_allocates_anew(recovering, how):
    """mainstay_alloc refused the name of its earlier memory, and the job ended at its first failure."""
    recovering.goes_on(
        "kill:1@step,4", "kill:0@step,6", given={"ALLOC": 1}, **(how | {"spares": 2} if how is SPARE else how)
    )


@pytest.mark.parametrize("loop", ["run", *rarely("whole")])
def test_a_process_that_is_started_has_what_env_gave_the_program(recovering, loop):
    """It began with the environment of the launcher: without NODES it ended, and with another `keep` the job did. A
    process that replaces a started process gets the variables, too."""
    given = {"MAINSTAY_KEEP": 3}
    recovering.goes_on("kill:1@step,3", "kill:0@step,5", "kill:1@step,6", loop=loop, given=given, **SPAWN)


@pytest.mark.campaign
@pytest.mark.parametrize("rank", [0, 3])
def test_ranks_that_never_spoke_to_the_one_that_failed_live(recovering, rank):
    """Over TCP, as between nodes: they also report the agreed result to it, and connect to it for that."""
    said = recovering.goes_on(f"kill:{rank}@step,4", ranks=8, OMPI_MCA_btl="self,tcp", **SHRINK)
    assert "MPI_ERRORS_ARE_FATAL" not in said.output, said.output


def test_who_writes_to_one_that_has_failed_lives(recovering):
    """Open MPI does so over TCP, also to a started process. SIGPIPE ended every such writer, with the memory of its
    node."""
    said = recovering.goes_on("pipe:1@step,4")
    assert "the job went on" not in said.output, said.output


@pytest.mark.campaign
def test_fewer_ranks_are_refused_what_each_has_for_itself_beside_a_box(recovering):
    said = recovering.run("kill:1@step,4", loop="mixed", **SHRINK)
    assert said.status == 1 and not said.result, said.output
    why = r"RANK_COUNT: revision \d+ in \S+ was saved by 4 ranks and the job has 3: region \"own\" is not a box"
    assert re.search(why, said.output), said.output


@pytest.mark.campaign
@BOTH
@pytest.mark.parametrize("way", ["segv", "abort"])
def test_a_rank_dies_by_its_own_fault(recovering, how, way):
    recovering.goes_on(f"{way}:2@step,3", **how)


@ONE
@pytest.mark.parametrize("way", [*rarely("exit"), "stop"])
def test_a_rank_that_is_missed_by_the_heartbeat_alone(recovering, how, way):
    unless_mpi_crashes(lambda: recovering.goes_on(f"{way}:1@step,3", heartbeat=HEARTBEAT, **how))


@pytest.mark.campaign
def test_a_spare_that_hangs_does_not_keep_the_job_from_its_end(recovering):
    """No rank needed it, so no rank ended it, and mpiexec waited for it for ever."""
    how = {"heartbeat": HEARTBEAT, "steps": 600, "cells": 100, **SPARE}
    unless_mpi_crashes(lambda: recovering.goes_on(f"stop:{RANKS}@start+300000", **how))


@pytest.mark.campaign
def test_a_spare_that_has_died_is_not_said_to_have_helped(recovering):
    said = recovering.goes_on(f"kill:{RANKS}@start", "kill:1@step,4", **SPARE)
    assert "a new process took its place" in said.output and "a spare took" not in said.output, said.output


# One death after another, each of the job's first rank at that time.
MOMENTS = [
    ["start#3", "receive,3", "collective,5"],
    ["start#9", "checkpoint,3", "end"],
    ["layout", "step#1,3", "checkpoint#2,5"],
    ["step", "checkpoint#4,3"],
]


@pytest.mark.campaign
@OTHER
@pytest.mark.parametrize("number", [0, *rarely(1, 2, 3)])
def test_the_first_rank_is_lost_at_any_moment(recovering, how, number):
    deaths = [f"kill:0@{moment}" for moment in MOMENTS[number]]
    how = how if how == SHRINK else {"spares": len(deaths)}
    # In the last two cases before a revision exists.
    recovering.goes_on(*deaths, anew=number >= 2, loop=["run", "bare"][number % 2], ranks=RANKS + 1, **how)


@pytest.mark.parametrize(("rank", "how"), [(0, SPARE), *rarely((0, SPAWN), (0, SHRINK), (RANKS - 1, SPARE))])
def test_a_rank_is_lost_before_there_is_a_session(recovering, how, rank):
    recovering.goes_on(f"kill:{rank}@start", **how)


@pytest.mark.campaign
@pytest.mark.parametrize(("moment", "how"), [("0@close#1", SPARE), *rarely(("1@close", SHRINK), ("2@close#2", SPARE))])
def test_a_rank_is_lost_in_the_closing_when_all_is_in_the_space(recovering, how, moment):
    recovering.goes_on(f"kill:{moment}", MAINSTAY_MEMORY="off", MAINSTAY_PFS_EVERY=1, **how)


@pytest.mark.campaign
@ONE
def test_a_rank_is_lost_in_the_closing_and_another_start_brings_to_the_space_what_lies_in_memory(recovering, how):
    recovering.goes_on("kill:0@close#1", starts=2, **how)


@pytest.mark.campaign
@pytest.mark.parametrize("moment", ["recovery#6", *rarely("recovery", "recovery+3000")])
@pytest.mark.parametrize("how", [{"spares": 2}, *rarely(SHRINK)], ids=["replace", "shrink"])
def test_another_rank_is_lost_in_the_recovery(recovering, how, moment):
    recovering.goes_on("kill:1@step,4", f"kill:2@{moment}", MAINSTAY_MEMORY_COPIES=3, **how)


@pytest.mark.campaign
@pytest.mark.parametrize("how", [{"spares": 2}, SHRINK], ids=["replace", "shrink"])
def test_two_are_lost_at_once(recovering, how):
    """Each shard exists three times, so one is left, whichever two ranks die."""
    recovering.goes_on("kill:1@step,4", "kill:2@step,4", MAINSTAY_MEMORY_COPIES=3, **how)


@pytest.mark.parametrize("how", [{"spares": 2}, *rarely(SHRINK)], ids=["replace", "shrink"])
def test_a_rank_that_hears_nothing_in_the_recovery_is_ended(recovering, how):
    """If another rank is killed while it returns memory to a rank, Open MPI loses all later messages to that rank over
    shared memory. Then all ranks waited in the vote for ever, awake."""
    said = recovering.goes_on("kill:1@step,4", "deaf:2@recovery", MAINSTAY_MEMORY_COPIES=3, PATIENCE_S=3, **how)
    assert re.search(r"mainstay: process \d+ hears no other rank any more", said.output, re.M), said.output


@pytest.mark.campaign
def test_a_rank_that_does_not_come_to_the_recovery_is_told_of(recovering, monkeypatch):
    """It may compute for long, so it is not ended."""
    monkeypatch.setattr("recovering.LIMIT_S", 20)
    with pytest.raises(TimeoutError) as hangs:
        recovering.run("kill:1@step,4", "stop:2@step,4", MAINSTAY_MEMORY_COPIES=3, PATIENCE_S=1, spares=2)
    told = re.findall(
        r"mainstay: for \d+ s the others have waited for process (\d+) to take part", str(hangs.value), re.M
    )
    assert len(told) == 1 and re.search(rf"^--- process {told[0]}:[^\n]*\nState:\s+[Tt] ", str(hangs.value), re.M), (
        hangs.value
    )


@ONE
@pytest.mark.parametrize("memory", ["auto", *rarely("off")])
def test_no_other_job_gets_the_space_in_a_recovery(recovering, how, memory):
    """Ranks unlocked before they locked again, and for some milliseconds the space was free."""
    space, nodes = recovering.folder / "1" / "space", recovering.nodes / "1"
    thief = [sys.executable, Path(__file__).parent / "python" / "thief.py", space / "lock", nodes / "result"]
    deaths = ["kill:1@step,2", "kill:0@step,5", "kill:1@checkpoint,8"]
    how = how if how == SHRINK else {"spares": len(deaths)}
    how = {**how, "MAINSTAY_MEMORY": memory, "MAINSTAY_PFS_EVERY": 1}
    with subprocess.Popen(thief, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout.readline() == "ready\n"
        try:
            recovering.goes_on(*deaths, ranks=RANKS + 1, steps=12, **how)
            said = waiting.communicate(timeout=LIMIT_S)[0]
        finally:
            waiting.kill()
    assert said == "" and waiting.returncode == 0, said


@pytest.mark.campaign
@pytest.mark.parametrize("below", [0, *rarely(2)])
@pytest.mark.parametrize("how", [{"spares": 2}, *rarely(SHRINK)], ids=["replace", "shrink"])
def test_a_pair_is_lost_that_holds_all_of_a_shard(recovering, how, below):
    """Among three ranks two always hold all of one shard: the job goes on from the next level, or begins anew."""
    recovering.goes_on("kill:1@step,5", "kill:2@step,5", anew=below == 0, ranks=3, MAINSTAY_PFS_EVERY=below, **how)


@pytest.mark.campaign
@pytest.mark.parametrize("moment", ["checkpoint#4,3", *rarely("step,4", "layout")])
def test_ranks_are_replaced_whose_state_is_their_own(recovering, moment):
    """Fewer ranks have no revision to go back to."""
    recovering.goes_on(f"kill:1@{moment}", anew=moment == "layout", loop="whole", **SHRINK)


@pytest.mark.campaign
@pytest.mark.parametrize("moment", ["recovery", "recovery#12"])
def test_another_is_lost_while_one_is_replaced_whose_state_is_its_own(recovering, moment):
    recovering.goes_on("kill:1@step,4", f"kill:2@{moment}", loop="whole", MAINSTAY_MEMORY_COPIES=3, **SHRINK)


@OTHER
def test_steps_that_do_not_look_at_their_messages(recovering, how):
    recovering.goes_on("kill:1@receive,3", loop="mute", **how)


def test_a_message_that_fails_has_all_ranks_go_back(recovering):
    """No rank has died. Before, mainstay_check knew only of dead ranks, and the effect of a failed message was
    saved."""
    said = recovering.goes_on("fault:1@step,4", loop="mute")
    assert re.search("the group failed; the job went on", said.output), said.output


@pytest.mark.campaign
@pytest.mark.parametrize("shown", ["gdb", "kernel"])
def test_a_job_that_hangs_shows_where(recovering, monkeypatch, shown):
    """Without the heartbeat no rank notices a stopped rank: the others wait for it until the test ends."""
    monkeypatch.setattr("recovering.LIMIT_S", 8)
    if shown == "kernel":
        monkeypatch.setattr("stacks.by_gdb", lambda _: "")
    elif not shutil.which("gdb"):
        pytest.skip("there is no gdb")
    with pytest.raises(TimeoutError) as hangs:
        recovering.run("stop:1@step,3", **SPARE)
    said = str(hangs.value)
    assert "the job took too long" in said and len(re.findall(r"^--- process .*/recovery ", said, re.M)) >= RANKS, said
    assert re.search(r"^State:\s+[Tt] ", said, re.M) and (" in main ()" in said) == (shown == "gdb"), said


def random_deaths(chance, how, ranks, kills):
    """One death after another, each of a living rank, at a later step than the death before."""
    deaths = []
    for number in range(kills):
        left = ranks - number if how == SHRINK else ranks
        moment = chance.choice(["step", "receive", "collective", "checkpoint", "step", "checkpoint"])
        later = chance.choice(["", f"+{chance.randrange(1, 4000)}", f"#{chance.randrange(1, 12)}"])
        deaths.append(f"kill:{chance.randrange(left)}@{moment}{later},{3 * number + chance.randrange(1, 4)}")
    return deaths


def is_killed_again_and_again(recovering, seed, how, loop):
    ranks = KILLS + 3 if how == SHRINK else 3
    deaths = random_deaths(random.Random(seed), how, ranks, KILLS)
    how = how if how == SHRINK else {"spares": KILLS}
    # In step 1 the first revision may still be under way.
    anew = None if int(deaths[0].rpartition(",")[2]) < 2 else False
    recovering.goes_on(*deaths, anew=anew, ranks=ranks, loop=loop, steps=3 * KILLS + 3, MAINSTAY_PFS_EVERY=1, **how)


@pytest.mark.campaign
@BOTH
@pytest.mark.parametrize("seed", range(KILLED_JOBS))
def test_kills_at_random(recovering, how, seed):
    """Forty in all."""
    is_killed_again_and_again(recovering, f"{how} {seed}", how, ["run", "bare"][seed % 2])


@pytest.mark.campaign
@BOTH
@pytest.mark.parametrize("loop", ["run", "bare"])
def test_many_kills_at_random(recovering, how, loop):
    for seed in range(CAMPAIGN_JOBS // 2):
        is_killed_again_and_again(recovering, f"campaign {how} {loop} {seed}", how, loop)


@pytest.mark.campaign
@pytest.mark.parametrize("loop", ["run", "bare"])
def test_processes_that_were_started_are_killed_again_and_again(recovering, loop):
    """Another process replaces a killed one that was started, or all others wait for it."""
    for seed in range(CAMPAIGN_JOBS // 5):
        chance = random.Random(f"started {loop} {seed}")
        deaths = [
            f"kill:{chance.choice([0, 1, 1])}@{chance.choice(['step', 'receive'])},{3 * at}" for at in range(1, 5)
        ]
        recovering.goes_on(*deaths, loop=loop, steps=15, **SPAWN)


def test_an_mpi_that_cannot_go_on_says_so_and_the_job_is_started_again(scratch):
    with pool_directory() as nodes:
        job = Recovering(scratch, nodes, MPICH)
        said = job.run("kill:1@step,4", spares=1, restarts=1)
        assert said.status == 0 and said.starts == 2 and said.died == 1, said.output
        assert re.search("mainstay: the job cannot go on by itself when ranks fail: MPICH ends it", said.output), (
            said.output
        )
        assert said.result.endswith(" after 8 steps\n"), said.output


@pytest.mark.campaign
@BOTH
def test_jacobi3d_goes_on_with_the_bits_of_one_that_nothing_disturbed(jacobi3d, scratch, how):
    """Other ranks wait for the dying one in messages of the program's own communicator."""

    def words(space):
        return [*jacobi3d(scratch / space, 12000, 100), "--out", scratch / "field"]

    status, output = run(RANKS, [*words("none"), "--no-checkpoint"], scratch)
    assert status == 0, output
    expected = (scratch / "field").read_bytes()
    with pool_directory() as nodes:
        killed = False
        # While this process gets no processor the job may come to its end.
        for attempt in range(5):
            job = Recovering(scratch, nodes)
            with job.start(RANKS, words(f"space{attempt}"), scratch, **how) as following:
                for line in following.lines():
                    # The line comes again.
                    if line == "step 500" and following.output.count(line) == 1:
                        with contextlib.suppress(KeyError, ProcessLookupError):
                            following.kill_rank(1)
                            killed = True
                assert following.wait() == 0, following.tail()
            if killed and "rank 1 failed" in "\n".join(following.output):
                break
    told = "\n".join(following.output)
    assert "mainstay: rank 1 failed; the job went on from revision" in told and "Segmentation" not in told, told
    assert not begun_anew(told), told
    assert (scratch / "field").read_bytes() == expected
