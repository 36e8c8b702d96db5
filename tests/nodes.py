"""Several nodes on one machine: a remote shell that stays on this machine, and the means to lose a node.

A node has a name, which is also its host's name, and a directory in place of its /dev/shm. All processes that the shell
starts there get both from their environment. (Open MPI counts the ranks of a node by the names of hosts.)
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

# Drops the options and the host, and runs the rest with the environment of the host, as sshd would.
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
            # Ranks of different nodes must not share memory, although they could on this machine.
            options = ["--prtemca", "plm_ssh_agent", self.shell, "--mca", "btl", "self,tcp", "--mca", "coll", "^han"]
        return ["env", *variables, mpi.command("mpiexec"), *options]

    def memory(self, node):
        return self.folder / node

    def lose(self, node):
        """Loses a node with all its processes and its memory. A process that notices the dead ones finds no memory any
        more."""
        self.stop(node)
        shutil.rmtree(self.memory(node), ignore_errors=True)
        self._signal(node, signal.SIGKILL)

    def stop(self, node):
        """Stops a node silently: its connections do not end."""
        (self.folder / f"{node}.lost").touch()
        self._signal(node, signal.SIGSTOP)

    def come_back(self, node):
        (self.folder / f"{node}.lost").unlink()

    def _signal(self, node, number):
        deadline = time.monotonic() + GONE_LIMIT_S
        # Repeated, because the processes may have started others meanwhile.
        while found := [pid for pid in self.processes(node) if number != signal.SIGSTOP or state(pid) not in "TtZX"]:
            assert time.monotonic() < deadline, f"processes of {node} are still there: {found}"
            for pid in found:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)

    def processes(self, node):
        """All processes of the node."""
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
    """Checks at the end that no process on the nodes is left."""
    with pool_directory() as folder:
        made = Nodes(folder)
        try:
            yield made
        finally:
            for memory in [path for path in folder.iterdir() if path.is_dir()]:
                made.lose(memory.name)
