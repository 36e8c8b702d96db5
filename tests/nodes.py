"""Several nodes on one machine: a remote shell that goes nowhere, and what it takes to lose a node.

A node has a name, which is also its host's, and a directory in the place of its /dev/shm. What the shell starts there,
and all that comes of it, knows both from its environment. (Open MPI counts the ranks of a node by the names of hosts.)
"""

import os
import shutil
import signal
import time
from contextlib import contextmanager
from pathlib import Path

from mpi import MPICH
from staged import pool_directory

GONE_LIMIT_S = 20

# Drops the options and the host, and runs the rest, as sshd would: with what the host has in its environment.
SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
node=$1
shift
if [ -e "FOLDER/$node.lost" ]; then
    echo "no route to $node" >&2
    exit 255
fi
mkdir -p "FOLDER/$node"
export MAINSTAY_NODE="$node" MAINSTAY_POOL_DIRECTORY="FOLDER/$node"
[ ! -e FOLDER/remote ] || unset MAINSTAY_RUN_REPORT
[ "$(id -u)" = 0 ] || user=--map-root-user
exec unshare --uts $user sh -c "hostname $node; $*"
"""


class Nodes:
    def __init__(self, folder):
        self.folder, self.shell = folder, folder / "rsh"
        self.shell.write_text(SHELL.replace("FOLDER", str(folder)))
        self.shell.chmod(0o755)

    def mpiexec(self, mpi):
        """The words that begin a job's command, without nodes and number of ranks."""
        variables = [f"{name}={value}" for name, value in mpi.variables]
        if mpi is MPICH:
            options = ["-launcher", "ssh", "-launcher-exec", self.shell]
        else:
            # Ranks of different nodes cannot share memory; they can here, and are not to.
            options = ["--prtemca", "plm_ssh_agent", self.shell, "--mca", "btl", "self,tcp", "--mca", "coll", "^han"]
        return ["env", *variables, mpi.command("mpiexec"), *options]

    def memory(self, node):
        return self.folder / node

    def lose(self, node):
        """A node is gone, with all its processes and its memory: who hears of the first finds nothing of the second."""
        self.stop(node)
        shutil.rmtree(self.memory(node), ignore_errors=True)
        self._signal(node, signal.SIGKILL)

    def stop(self, node):
        """A node says no more, but nobody is told that its connections have ended."""
        (self.folder / f"{node}.lost").touch()
        self._signal(node, signal.SIGSTOP)

    def come_back(self, node):
        (self.folder / f"{node}.lost").unlink()

    def _signal(self, node, number):
        deadline = time.monotonic() + GONE_LIMIT_S
        # Again, as the processes can have started others meanwhile.
        while found := [pid for pid in self.processes(node) if number != signal.SIGSTOP or state(pid) not in "TtZX"]:
            assert time.monotonic() < deadline, f"processes of {node} are still there: {found}"
            for pid in found:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)

    def processes(self, node):
        """All that run there."""
        mark = f"MAINSTAY_POOL_DIRECTORY={self.memory(node)}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)
                except OSError:
                    pass  # gone meanwhile, or another user's


def state(pid):
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


@contextmanager
def nodes():
    """At the end no process on them is left."""
    with pool_directory() as folder:
        made = Nodes(folder)
        try:
            yield made
        finally:
            for memory in [path for path in folder.iterdir() if path.is_dir()]:
                made.lose(memory.name)
