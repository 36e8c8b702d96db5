"""Failures, made and not looked up: a kill while saving, a flipped byte, another number of ranks."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import mpi
from peers import disk, jobs, killed
from peers.state import State

TRIES = 20  # for each kill in the middle of a saving


@dataclass(frozen=True)
class Outcome:
    """The result of a restore: `last` and `other` are whole checkpoints, `torn` is none, without an error."""

    kind: str
    error: str | None = None

    @classmethod
    def of(cls, line, last):
        if line["number"] is not None:
            return cls("last" if line["number"] == last else "other")
        error = next((error for error in line.get("error", ()) if error), None)
        return cls("error", error) if error else cls("torn")


@dataclass(frozen=True)
class Found:
    """The outcomes of the failures of one saver. `across` is None for a saver of one process."""

    killed: list
    flipped: Outcome
    across: Outcome | None = None


def killed_once(scratch, mib, name):
    """The restore after a kill in the middle of checkpoint 2, over checkpoint 1; None if the kill came too late."""
    with tempfile.TemporaryDirectory(prefix="killed-", dir=scratch) as folder:
        saver = Path(folder) / "saver"
        command = [*map(str, (jobs.PYTHON, jobs.PROGRAM, "twice", saver, mib, name))]
        if killed.kill_saving(command, mpi.OPENMPI.environment(scratch), saver, mib << 20):
            return jobs.restored(saver, mib, name, 1, 1, (2, 1))


def often(kill, kills):
    """The outcomes of so many kills. A kill that came too late is done again, but not without end."""
    lines = []
    for _ in range(TRIES * kills):
        if len(lines) < kills and (line := kill()):
            lines.append(line)
    return [Outcome.of(line, last=1) for line in lines]


def flip(folder, mib, number, restore):
    """The outcome of `restore` after one byte of checkpoint `number` was changed."""
    places = disk.flip(folder, State(mib).sample(number))
    if places != 1:
        raise SystemExit(f"{folder} has the bytes of the state {places} times, not once")
    return Outcome.of(restore(), last=number)


def of_saver(alone, two, mib, name, kills, numbers):
    """`alone` and `two`: the folders of this saver's checkpoints, of one process and of two ranks; `numbers`: those in
    them, newest first."""
    shared_out = jobs.restored(two, mib, name, 1, 2, numbers[2])
    return Found(
        killed=often(lambda: killed_once(alone.parent, mib, name), kills),
        flipped=flip(alone, mib, numbers[1][0], lambda: jobs.restored(alone, mib, name, 1, 1, numbers[1])),
        across=Outcome.of(shared_out, last=numbers[2][0]),
    )
