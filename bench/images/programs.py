"""The programs, and one run of each."""

import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness import mpi as harness
from harness import profile
from ranks.jobs import Job, slots_words
from ranks.programs import FLAGS, MAINSTAY

from mpi import OPENMPI

SOURCE = Path(__file__).resolve().parent / "c" / "sweeps.c"
RANKS = 4  # all of the NAS benchmarks run on so many
CHECKPOINTS = 3  # of a run, at equal intervals, as published
TRIAL_STEPS = 10
MIB = {"LU": 23, "BT": 40}  # of a process in class C on 64, as published
NPB = ("lu", "bt", "sp", "cg")
NPB_NAME = re.compile(rf"({'|'.join(NPB)})\.[A-Z]\.x(\.\w+)?$", re.I)


@dataclass(frozen=True)
class Program:
    case: str
    words: tuple


@dataclass(frozen=True)
class Ran:
    seconds: float
    revisions: list  # their records


def all_of(o, folder):
    """Our own program with the memory of two NAS benchmarks, and the NAS benchmarks that the user has compiled."""
    made = folder / "sweeps"
    words = [MAINSTAY, "mpicc", *FLAGS, SOURCE]
    harness.library.once(made, words, [SOURCE], lambda made: harness.library.run([*words, "-o", made]))
    for name, mib in MIB.items():
        words = (made, mib / o.part)
        yield Program(f"sweeps as large as {name}, {RANKS} x {mib / o.part:g} MiB", (*words, steps_for(o, words)))
    if o.npb:
        for path in sorted(path for path in o.npb.rglob("*") if NPB_NAME.match(path.name)):
            yield Program(f"NAS {path.name}, {RANKS} ranks", (path.resolve(),))


def steps_for(o, words):
    """So many that a run takes the wished time, without its start. On a busy machine a short trial tells nothing."""
    few, more = 2, TRIAL_STEPS
    start_s = trial_s = run(o, Program("", (*words, few))).seconds
    while trial_s < 1.5 * start_s:
        more *= 2
        trial_s = run(o, Program("", (*words, more))).seconds
    return max(few, int(o.seconds * (more - few) / (trial_s - start_s)))


def run(o, program, side=None, calm_s=None):
    """One run in a new space. `calm_s`: the time of a run without checkpoints."""
    processes = min(RANKS, o.processes)
    with tempfile.TemporaryDirectory(prefix="images-", dir=o.scratch) as scratch:
        space = Path(scratch) / "space"
        words = slots_words(space, RANKS, program.words, OPENMPI, processes)
        settings = {} if calm_s is None else {"MAINSTAY_EVERY_SECONDS": calm_s / (CHECKPOINTS + 1), **side.variables()}
        with Job(*words, scratch, MAINSTAY_KEEP=CHECKPOINTS + 2, **settings) as job:
            job.rest()
            seconds = time.monotonic() - job.start
        return Ran(seconds, [] if calm_s is None else revisions(space))


def revisions(space):
    """The records of the last checkpoints, without the first of all, which makes the files, if there are others. The newest
    revision of a job that has ended holds no rank."""
    newest = profile.revision(space)["revision"]
    numbers = range(max(1, newest - CHECKPOINTS), newest)
    if not numbers:
        raise SystemExit("the run was too short for a checkpoint; --seconds makes it longer")
    return [profile.revision(space, number) for number in numbers if number > 1 or len(numbers) == 1]
