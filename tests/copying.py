"""Nodes on one machine: each rank gets its node from the test, and a lost node loses the content of its memory.

The jobs are c/copies.c and python/copies.py, unless a test gives another program. This file reads their output.
"""

import re
import shutil

from job import Job
from programs import build_c, build_python

LIMIT_S = 60
ENDLESS = 10**6  # steps: of a job that is killed
CELLS = 20_000
# The first word has a letter for each rank: its node. Each node has memory of its own. ON_NODE holds further commands
# to run there first.
ON_ITS_NODE = """
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
MAINSTAY_NODE=$(printf %s "$1" | cut -c$((rank + 1)))
MAINSTAY_POOL_DIRECTORY=$POOLS/$MAINSTAY_NODE
export MAINSTAY_NODE MAINSTAY_POOL_DIRECTORY
shift
eval "$ON_NODE"
exec "$@"
"""
LEVELS = "mainstay-level-*"
LINE = re.compile(r"(from|sure|skipped|end) (.*)$")


class Said:
    """The output of a job, and its end."""

    def __init__(self, status, output):
        self.status, self.output = status, "\n".join(output)
        told = {name: [] for name in ("from", "sure", "skipped", "end")}
        for match in filter(None, map(LINE.match, output)):
            told[match[1]].append(match[2])
        self.step = int(told["from"][0]) if told["from"] else None
        self.sure = max(map(int, told["sure"]), default=0)
        self.skipped = " ".join(told["skipped"])
        self.end = told["end"][0] if told["end"] else None


class Nodes:
    """One space, and the memory of the nodes of its jobs."""

    def __init__(self, mpi, folder, pools, language="c", program=None):
        self.mpi, self.folder, self.pools = mpi, folder, pools
        self.space, self.cells = folder / "space", CELLS
        if program:
            self.program = program
        elif language == "c":
            self.program = [build_c(["copies.c"], "copies", mpi=mpi)]
        else:
            self.program = [mpi.command("python"), build_python("copies.py", "copies-python")]

    def job(self, seats, *words, **variables):
        for node in set(seats):
            (self.pools / node).mkdir(exist_ok=True)
        told = {"POOLS": self.pools, "ON_NODE": "", "MAINSTAY_MEMORY": "auto", **variables}
        # Open MPI's own segments are removed with the folder, even if processes are killed.
        told["OMPI_MCA_btl_sm_backing_directory"] = self.folder
        variables = ["env", *(f"{name}={value}" for name, value in told.items())]
        command = [*variables, "sh", "-c", ON_ITS_NODE, "sh", seats, *self.program, *words]
        return Job(len(seats), command, self.folder, LIMIT_S, self.mpi)

    def run(self, seats, steps, *words, **variables):
        with self.job(seats, self.space, steps, self.cells, *words, **variables) as job:
            for _ in job.lines():
                pass
            return Said(job.wait(), job.output)

    def killed(self, seats, node, moment, step, way="wait", **variables):
        """The output of a job with a node that dies; all other nodes end with it."""
        said = self.run(seats, ENDLESS, way, node, moment, step, **variables)
        # The other ranks may report the lost rank.
        wrong = re.search(r"WRONG (?!.*GROUP_FAILED)", said.output)
        assert said.status != 0 and said.end is None and not wrong, said.output
        return said

    def ends(self, seats, steps, **variables):
        """The output of a job that ends in order and leaves nothing in memory."""
        said = self.run(seats, steps, **variables)
        assert said.status == 0, said.output
        assert not self.left(), self.left()
        return said

    def left(self):
        """The files in the memory of all nodes."""
        return [path for node in self.pools.iterdir() for path in node.iterdir()]

    def level_of(self, node):
        """The directory of the shards that the ranks of a node have saved in its memory."""
        (level,) = [path for path in (self.pools / node).glob(LEVELS) if "-copy" not in path.name]
        return level

    def copies_of(self, node, copy=1):
        """The directory of the copies that a node holds of other nodes' shards."""
        (copies,) = (self.pools / node).glob(f"{LEVELS}-copy{copy}-*")
        return copies

    def lose(self, nodes):
        """Loses the memory of nodes: saved revisions, and revisions under way."""
        for node in nodes:
            shutil.rmtree(self.pools / node)
