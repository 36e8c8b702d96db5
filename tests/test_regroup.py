"""An MPI job when ranks fail, below the engine: the remaining ranks leave every wait, spares or started processes
replace the dead, and old messages never arrive afterwards."""

import dataclasses
import re

import pytest
from crashes import unless_mpi_crashes
from jobs import run
from programs import build_c
from test_ranks import SURVIVING
from ways import rarely

# A process that hangs is found by this alone.
HEARTBEAT = dataclasses.replace(
    SURVIVING,
    oversubscribe=(
        *SURVIVING.oversubscribe,
        *("--mca", "mpi_ft_detector", "true", "--mca", "mpi_ft_detector_thread", "true"),
        *("--mca", "mpi_ft_detector_period", "0.3", "--mca", "mpi_ft_detector_timeout", "3"),
    ),
)
NOT_NEEDED = "NOT_NEEDED: this rank waited as a spare and was not needed"


def regroup(scratch, ranks, *arguments, mpi=SURVIVING, left, unneeded=0):
    """Runs tests/c/regroup.c: in the last epoch each place of `left` has one rank, and all of them end in order."""
    _, output = run(ranks, [build_c(["regroup.c"], "regroup", mpi=mpi), *arguments], scratch, mpi=mpi)
    assert "WRONG" not in output, output
    last = re.findall(rf"^epoch {len(arguments) - 2}: rank (\d+) of {left}$", output, re.M)
    assert sorted(map(int, last)) == list(range(left)), output
    assert output.count("done") == left and output.count(NOT_NEEDED) == unneeded, output
    return output


def test_those_that_are_left_come_out_of_what_they_wait_in_and_go_on(scratch):
    """Down to one rank, rank 0 among the dead and two at once; after each, messages of before do not arrive."""
    steps = [
        "kill:2@receive",
        "kill:0@adopted",
        "abort:1@table",
        "kill:3@collective",
        "kill:1@working",
        "kill:1,0@receive",
    ]
    regroup(scratch, 8, "shrink", 0, *steps, left=1)


def test_spares_take_the_places_of_the_dead_and_the_others_keep_theirs(scratch):
    """One of five is killed while it waits, and replaces no rank. Three are needed, two of them at once; the last one
    learns that the job has ended."""
    regroup(scratch, 8, "replace", 5, "sleep:3@x", "kill:0@receive", "kill:1,2@collective", left=3, unneeded=1)


def test_spares_are_told_of_the_end_also_when_the_first_rank_fails_in_it(scratch):
    _, output = run(5, [build_c(["regroup.c"], "regroup"), "replace", 2, "last:0@x"], scratch, mpi=SURVIVING)
    assert "WRONG" not in output and output.count("done") == 2 and output.count(NOT_NEEDED) == 2, output


def test_spares_that_are_used_up_come_before_shrinking(scratch):
    regroup(scratch, 4, "shrink", 1, "kill:1@receive", "kill:0@receive", left=2)


def test_processes_are_started_once_no_spare_is_left(scratch):
    """The first rank too, which had the spare started; the program has changed its arguments meanwhile."""
    regroup(scratch, 4, "replace", 1, "kill:1@receive", "kill:0,2@adopted", left=3)


@pytest.mark.parametrize("call", [*rarely("split"), "split2"])
@pytest.mark.parametrize(("recovery", "spares"), [*rarely(("shrink", 0)), ("replace", 2)])
def test_rank_that_fails_while_others_regroup_has_them_begin_again(scratch, call, recovery, spares):
    step = f"kill:1@receive+{call}:{2 if spares else 0}@x"
    regroup(scratch, 4 + spares, recovery, spares, step, left=4 if spares else 2)


@pytest.mark.parametrize("call", ["spawning:2", *rarely("spawn:0")])
def test_rank_that_fails_while_a_process_is_started_is_replaced_too(scratch, call):
    """spawn:0: the process that the dead rank had started came too late, and is ended."""
    unless_mpi_crashes(lambda: regroup(scratch, 3, "replace", 0, f"kill:1@receive+{call}@x", left=3))


@pytest.mark.parametrize("way", ["stillborn", "begun"])
def test_process_that_dies_while_it_starts_is_replaced_too(scratch, way):
    """The job stalled for 120 s, and was over. Where MPI waits for the dead one, the rank that started it goes, too."""
    mpi = dataclasses.replace(SURVIVING, variables=(*SURVIVING.variables, ("DEATHS", str(scratch))))
    output = regroup(scratch, 3, "replace", 0, f"kill:1@receive+{way}:9@x", mpi=mpi, left=3)
    assert (scratch / way).exists()
    assert output.count("has ended before it came into the job") == (way == "stillborn"), output


def test_processes_are_started_in_vain_three_times(scratch):
    _, output = run(
        3, [build_c(["regroup.c"], "regroup"), "replace", 0, "kill:1@receive+doomed:9@x"], scratch, mpi=SURVIVING
    )
    refused = output.count("no process could be started in place of a failed one")
    # A rank whose replacement dies while MPI connects to it ends, because MPI would wait for ever.
    ended = output.count("a replacement process has ended before it came into the job")
    assert refused > 0 and refused + ended == 2, output


def test_job_ends_where_mpi_starts_processes_for_ever(scratch):
    """As Open MPI does where mpiexec has broken: all waited for the rank that had begun."""
    program = build_c(["regroup.c"], "regroup")
    _, output = run(3, [program, "replace", 0, "kill:1@receive+hanging:0,2@x"], scratch, mpi=SURVIVING)
    assert output.count("mainstay: starting processes in the places of others took more than 2 s") == 2, output


@pytest.mark.campaign
def test_rank_that_hangs_is_ended_before_the_others_go_on(scratch):
    """Stopped, or gone without a word to MPI. It would write into files that are another's by then, and mpiexec would wait
    for it."""
    unless_mpi_crashes(
        lambda: regroup(scratch, 5, "replace", 2, "stop:0@receive", "exit:2@working", mpi=HEARTBEAT, left=3)
    )


def test_mpi_that_does_not_survive_says_so_once_and_spares_wait(mpi, scratch):
    """MPICH, and Open MPI without the option: the job is as large as without recovery, and has no shrink."""
    program = build_c(["regroup.c"], "regroup", mpi=mpi)
    status, output = run(4, [program, "replace", 1, "kill:1@receive"], scratch, mpi=mpi)
    assert status == 0 and output.count("cannot go on after a failure") == 3, output
    assert output.count("mainstay: recovery has no effect here") == 1, output
    assert output.count(NOT_NEEDED) == 1 and "WRONG" not in output, output


def spares(scratch, mode, ranks, mpi=SURVIVING, **settings):
    variables = tuple((f"MAINSTAY_{name.upper()}", str(value)) for name, value in settings.items())
    there = dataclasses.replace(mpi, variables=(*mpi.variables, *variables))
    _, output = run(ranks, [build_c(["spares.c"], "spares", mpi=mpi), mode, scratch / "space"], scratch, mpi=there)
    assert "WRONG" not in output, output
    return output


@pytest.mark.parametrize("recovery", [*rarely("off"), "replace"])
def test_opening_gives_the_program_a_communicator_of_its_workers(mpi, scratch, recovery):
    """The same program with all settings; with recovery off there are no spares."""
    output = spares(scratch, "calm", 3, mpi, recovery=recovery, spares=1)
    workers = 3 if recovery == "off" else 2
    assert len(re.findall(rf"rank \d of {workers}: OK", output)) == workers, output
    assert output.count(NOT_NEEDED) == 3 - workers, output


def test_settings_that_differ_between_ranks_are_told_by_the_opening(mpi, scratch):
    output = spares(scratch, "differ", 3, mpi, recovery="replace")
    assert output.count("INVALID_ARGUMENT: spares: rank 2 has 2 and rank 0 has 0") == 3, output


def test_as_many_spares_as_ranks_are_refused(mpi, scratch):
    output = spares(scratch, "calm", 2, mpi, recovery="shrink", spares=2)
    assert output.count("INVALID_ARGUMENT: spares: ") == 2 and "none to work" in output, output


def test_opening_in_which_a_rank_fails_is_done_again_with_another(scratch):
    output = spares(scratch, "dies", 4, recovery="replace", spares=1)
    assert sorted(re.findall(r"rank (\d) of 3: OK", output)) == ["0", "1", "2"], output
    assert "process 3: rank 1 of 3" in output, output
