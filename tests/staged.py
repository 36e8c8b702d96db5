"""A job that is killed between t2 and t3: its revision is complete in the node's pool, but not in the space."""

import re
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from job import Job
from limits import LIMIT_S
from mpi import OPENMPI, SHARED_MEMORY
from ways import WAYS, spread

LINE = re.compile(r"= \d+ checkpoint OK")


@contextmanager
def pool_directory():
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="mainstay-test-") as folder:
        yield Path(folder)


class Place:
    """A space, a program that makes the calls of c/faults.c, and the shim that holds its writes."""

    def __init__(self, folder, faults, shim, way=WAYS[0]):
        self.folder, self.faults, self.shim, self.way = folder, faults, shim, way
        self.space = folder / "space"

    def staged_and_killed(self, pools, ranks, *before, **more):
        """Revision 1 is saved. Revision 2 is staged by all ranks and not written; then all are killed. `more`:
        variables for the job."""
        held = self.folder / "held"
        shim = {
            "LD_PRELOAD": self.shim,
            "INJECT": "write:hold",
            "INJECT_WHEN": held,
            "INJECT_SPACE": self.space,
            **more,
        }
        commands = [*before, "open", "restore", "save:1", "wait", f"make:{held}", "save:2", "poll"]
        with self.job(pools, ranks, commands, shim) as job:
            told = 0
            for line in job.lines():
                told += bool(LINE.match(line))
                if told == 2 * ranks:
                    break
            assert told == 2 * ranks, job.tail()
            for rank in range(ranks):
                # mpiexec may have seen the first rank die and ended the others.
                with suppress(ProcessLookupError):
                    job.kill_rank(rank)
            job.process.wait(LIMIT_S)
        held.unlink()
        left = self.way["nodes"] + ranks
        files = [path for path in pools.iterdir() if path.is_file()]
        assert len(files) == left, "the pool of each node, and a record for each rank"

    def run(self, pools, ranks, *commands, wrong_is_told=False, **more):
        """The output of a job that must end in order: rank, call, status, text. `more`: variables for it."""
        with self.job(pools, ranks, commands, more) as job:
            said = [re.match(r"= (\d+) (\S+) (\S+) ?(.*)$", line) for line in job.lines()]
            assert job.wait() == 0, job.tail()
        said = [match.groups() for match in said if match]
        assert wrong_is_told or not any(status in ("WRONG", "INTERNAL") for _, _, status, _ in said), said
        assert sum(call == "end" for _, call, _, _ in said) == ranks, said
        return said

    def job(self, pools, ranks, commands, more=()):
        # Open MPI's own segments are removed with the folder, even if processes are killed.
        variables = {"MAINSTAY_POOL_DIRECTORY": pools, "OMPI_MCA_btl_sm_backing_directory": self.folder, **dict(more)}
        variables = [f"{name}={value}" for name, value in variables.items()]
        command = spread(self.way, ["env", *variables, self.faults, self.space, *commands])
        return Job(ranks, command, self.folder, LIMIT_S)


def ends_well(said):
    assert all(status == "OK" for _, call, status, _ in said if call != "restored"), said
