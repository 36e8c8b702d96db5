"""Jobs that go on when ranks fail: each process is a node, and is lost with its memory.

The job is c/recovery.c. This file reads its result in the folder of the nodes.
"""

import dataclasses
import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from command import MAINSTAY
from crashes import MpiCrashed, mpi_fell_over
from job import Job
from mpi import OPENMPI, Mpi
from programs import build_c
from stacks import stacks

LIMIT_S = 60  # of a job: a hang is what these tests look for
RANKS = 4  # that work
CELLS = 1000
STEPS = 8
HEARTBEAT = "5s"  # on a machine that is busy with other tests, too


@dataclass(frozen=True)
class Supervised(Mpi):
    """An MPI with an mpiexec that `mainstay run` starts."""

    words: tuple = ()

    def mpiexec(self, ranks, command):
        return [str(MAINSTAY), "run", *map(str, self.words), "--", *super().mpiexec(ranks, command)]


@dataclass
class Said:
    status: int
    output: str
    result: str  # "" if there is none
    died: int  # how many have died as they were told to

    @property
    def starts(self):
        return max(map(int, re.findall(r"^mainstay: start (\d+): ", self.output, re.M)), default=1)


@functools.cache
def program(mpi):
    return build_c(["recovery.c"], "recovery", mpi=mpi)


class Recovering:
    """Jobs on one space, each on new nodes below a folder in memory."""

    def __init__(self, folder, nodes, mpi=OPENMPI):
        self.folder, self.nodes, self.mpi = folder, nodes, mpi
        self.program = program(mpi)
        self.jobs = 0

    def start(self, ranks, command, scratch, way="replace", spares=0, heartbeat=None, restarts=0, **variables):
        words = ["--in-job", "--recovery", way, "--restarts", restarts]
        words += ["--spares", spares] if spares else []
        words += ["--heartbeat", heartbeat] if heartbeat else []
        told = {"MAINSTAY_MEMORY": "auto", "MAINSTAY_PFS_EVERY": 0, "MAINSTAY_POOL_DIRECTORY": self.nodes, **variables}
        # Open MPI's own segments are removed with the folder, even if processes are killed.
        told["OMPI_MCA_btl_sm_backing_directory"] = scratch
        # Set for the launcher, so that processes that start later also have them.
        told = tuple((name, str(value)) for name, value in told.items())
        mpi = Supervised(**vars(self.mpi), words=tuple(words))
        mpi = dataclasses.replace(mpi, depth=mpi.depth + 1, variables=(*mpi.variables, *told))
        return Job(ranks, command, scratch, LIMIT_S, mpi)

    def run(self, *deaths, loop="run", ranks=RANKS, steps=STEPS, cells=CELLS, given=None, **how):
        """The end of a job with these deaths. `given`: variables that the ranks get from `env`, not from the
        launcher."""
        self.jobs += 1
        scratch, nodes = self.folder / str(self.jobs), self.nodes / str(self.jobs)
        scratch.mkdir()
        nodes.mkdir()
        command = [self.program, scratch / "space", steps, cells, loop, *deaths]
        if given is None:
            how = {**how, "NODES": nodes}
        else:
            command = ["env", f"NODES={nodes}", *(f"{name}={value}" for name, value in given.items()), *command]
        with self.start(ranks, command, scratch, **how) as job:
            try:
                for _ in job.lines():
                    pass
                status = job.wait()
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                raise TimeoutError(f"{error}\n{stacks(job.process.pid)}") from None
        result = nodes / "result"
        died = {int(mark.name.partition("-")[2]) for mark in nodes.glob("death-*")}
        said = Said(status, "\n".join(job.output), result.read_text() if result.exists() else "", len(died))
        assert "WRONG" not in said.output, said.output
        self.left = [path for node in nodes.iterdir() if node.is_dir() for path in node.iterdir()]
        return said

    def goes_on(self, *deaths, starts=1, anew=False, **how):
        """A job goes on through all deaths, with this number of starts, and leaves nothing in memory. `anew`: whether
        it goes back to the beginning on the way, because no revision exists; None if that depends on chance."""
        said = self.run(*deaths, restarts=starts - 1, **how)
        if mpi_fell_over(said.output):
            raise MpiCrashed(said.output)
        steps, cells = how.get("steps", STEPS), how.get("cells", CELLS)
        assert said.status == 0 and said.starts == starts, said.output
        assert said.died == len(deaths), said.output
        assert said.result == result(cells, steps), said.output
        assert not self.left, (self.left, said.output)
        assert anew is None or anew == begun_anew(said.output), said.output
        return said


def begun_anew(output):
    """Whether a job has gone back to the beginning after a failure, and not to a revision."""
    return "the job went on anew" in output or "the job begins anew" in output


def result(cells, steps):
    """The result of the computation."""
    mask = 2**64 - 1
    field = [at * 0x9E3779B97F4A7C15 & mask for at in range(cells)]
    for step in range(steps):
        field = [(3 * field[at - 1] + 5 * field[at] + 7 * field[(at + 1) % cells] + step) & mask for at in range(cells)]
    values = [(value ^ at) * 0xD6E8FEB86659FD93 & mask for at, value in enumerate(field)]
    return f"{sum(value ^ value >> 32 for value in values) & mask:016x} after {steps} steps\n"
