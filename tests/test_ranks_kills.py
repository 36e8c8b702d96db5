"""Ranks in slots that are killed at any event, in a checkpoint, in a restore and between, come back on other numbers of
processes: the results and files are those of an undisturbed run."""

import itertools
import random
import re

import pytest
from slots import build, in_slots, killer
from ways import rarely

RANKS = 4
# The programs, with their steps and the files that they write.
PROGRAMS = {"pipeline": ("pipeline.c", 60, "log.*"), "cpp": ("state.cpp", 250, "stream.*.out"),
            "fortran": ("state.f90", 500, "table.*.out")}  # fmt: skip
# The events of killer.c, each with the largest number that a short run comes to.
EVENTS = {"turn": 4000, "write": 60, "sync": 20, "read": 30, "map": 300}
PROCESSES = [0, 4, 0, 0, 3, 0, 1, 0, 0, 2]
OTHERS = {"incremental": {"MAINSTAY_CAPTURE": "incremental"}, "snapshot": {"MAINSTAY_CAPTURE": "incremental-snapshot"},
          "full": {"FULL_AT": "20:60"},
          "early": {"MAINSTAY_CAPTURE": "incremental", "MAINSTAY_PREDICTOR": "infrequent", "MAINSTAY_TICK_SECONDS": "0.002"}}  # fmt: skip
RESULT = re.compile(r"^sum .* ranks$", re.M)
FULL = "20:1000000"  # from write 20 on; the first checkpoint has fewer
ATTEMPTS = 3  # a job that comes to its end before the event is followed by a new one


def outcome(status, output, folder, files):
    """The result, and the bytes of the files. A job that is killed after its result may print it again, or not."""
    found = set(RESULT.findall(output))
    assert status == 0 and len(found) == 1, output
    written = {path.name: path.read_bytes() for path in sorted(folder.glob(files))}
    assert len(written) == RANKS, written.keys()
    # A removed file stays removed. Its second name goes, too, unless the end of the job could not be saved.
    assert not [*folder.glob("*.direct"), *folder.glob("first.*")]
    assert "a checkpoint failed" in output or not [*folder.glob(".*.mainstay")]
    return found, written


def kill_again_and_again(name, seed, kills, mpi, scratch, **settings):
    """Kills a job at `kills` events that the seed chooses, and lets it go on after each."""
    source, steps, files = PROGRAMS[name]
    command, options = [build(source), steps], ("--every", "10ms")
    chance, processes = random.Random(f"{name} {seed}"), itertools.cycle(PROCESSES[seed % 3 :] + PROCESSES[: seed % 3])
    (scratch / "calm").mkdir()
    calm = outcome(*in_slots(command, RANKS, scratch / "calm"), scratch / "calm", files)
    note, done, ended, said = scratch / "killed", 0, 0, ""
    while done < kills:
        assert ended <= ATTEMPTS * kills, f"{done} kills, and {ended} jobs came to their end"
        count, event = next(processes), chance.choice(list(EVENTS))
        variables = {
            "LD_PRELOAD": killer(),
            "KILL_AT": f"{event}:{chance.randint(1, EVENTS[event])}",
            "KILL_RANK": chance.randrange(max(1, count)),
            "KILL_NOTE": note,
            **settings,
        }
        status, output = in_slots(command, RANKS, scratch, mpi, count, options, **variables)
        said += output + "\n"
        if note.exists():
            note.unlink()
            done += 1
        # A job may succeed in spite of the kill, if it has reported its end before.
        if status == 0:
            assert outcome(status, said, scratch, files) == calm
            ended, said = ended + 1, ""
    status, output = in_slots(command, RANKS, scratch, mpi, 2, **settings)
    assert outcome(status, said + output, scratch, files) == calm


@pytest.mark.parametrize(
    "name, seed, kills", [("pipeline", 1, 6), *rarely(("pipeline", 2, 10), ("cpp", 3, 10), ("fortran", 4, 10))]
)
def test_killed_ranks_come_back(name, seed, kills, mpi, scratch):
    """State in C++ and in Fortran that comes back from one kill is in test_ranks_run.py."""
    kill_again_and_again(name, seed, kills, mpi, scratch)


@pytest.mark.parametrize("seed", [1, *rarely(*range(2, 12))])
def test_a_program_without_a_call_is_saved_and_comes_back(seed, scratch):
    """A serial program makes no call of MPI, so it was saved only at its end."""
    command, options, note = [build("silent.c", "-O2"), 60_000_000], ("--every", "20ms"), scratch / "note"
    (scratch / "calm").mkdir()
    calm = RESULT.findall(in_slots(command, 1, scratch / "calm")[1])
    chance, kills = random.Random(seed), 0
    while kills < 4:
        event = f"{chance.choice(['write', 'late'])}:{chance.randint(1, 20)}"
        variables = {"LD_PRELOAD": killer(), "KILL_AT": event, "KILL_NOTE": note, "FULL_AT": "9:0"}
        status, output = in_slots(command, 1, scratch, options=options, **variables)
        if not note.exists():
            break
        kills += 1
        note.unlink()
    assert kills >= 2, output
    status, output = in_slots(command, 1, scratch)
    assert status == 0 and RESULT.findall(output) == calm and "1 restore" in output, output


@pytest.mark.parametrize("processes", [*rarely(0), 2])
def test_a_job_goes_on_while_the_disk_is_full(processes, mpi, scratch):
    """The disk of one process is full, so the checkpoint fails on all. After a kill an older revision is restored."""
    source, steps, files = PROGRAMS["cpp"]
    command, options, full = [build(source), steps], ("--every", "10ms"), {"LD_PRELOAD": killer(), "KILL_RANK": 0}
    calm, whole, killed = (scratch / name for name in ("calm", "whole", "killed"))
    for folder in calm, whole, killed:
        folder.mkdir()
    expected = outcome(*in_slots(command, RANKS, calm), calm, files)
    status, output = in_slots(command, RANKS, whole, mpi, processes, options, FULL_AT=FULL, **full)
    assert outcome(status, output, whole, files) == expected, output
    assert "mainstay: a checkpoint failed: " in output and "no room " in output, output
    note = scratch / "note"
    full |= {"KILL_AT": "late:200", "KILL_NOTE": note}
    status, said = in_slots(command, RANKS, killed, mpi, processes, options, FULL_AT=FULL, **full)
    assert status != 0 and note.exists(), said
    status, output = in_slots(command, RANKS, killed, mpi, 1)
    assert outcome(status, said + output, killed, files) == expected and "1 restore" in output, output


@pytest.mark.campaign
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("capture", ["whole", *OTHERS])
@pytest.mark.parametrize("seed", range(10, 32))
def test_ranks_come_back_after_thousands_of_kills(name, capture, seed, mpi, scratch):
    kill_again_and_again(name, seed, 10, mpi, scratch, **OTHERS.get(capture, {}))
