"""`mainstay run --in-job`, with Open MPI on several nodes: the daemon of a node is lost, with the node or without it. The job cannot
go on by itself, which is told, and is started again from the copies that are left."""

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from mpi import OPENMPI
from nodes import nodes as made_nodes
from programs import build_c
from supervised import Run, run
from ways import rarely

RANKS, STEPS, STOP = 4, 60, 35


@pytest.fixture
def nodes(monkeypatch):
    # A revision is in memory alone, on two nodes; the first is safe at the second checkpoint.
    for name, value in {"MEMORY": "auto", "EVERY_STEPS": "10", "PFS_EVERY": "0", "EXCHANGE": "blocking"}.items():
        monkeypatch.setenv(f"MAINSTAY_{name}", value)
    OPENMPI.found()
    with made_nodes() as made:
        yield made
    OPENMPI.clear()


def command(nodes, scratch, space, *more):
    program = build_c(["goes_on.c"], "goes_on")
    return ["--", *nodes.mpiexec(OPENMPI), "-n", RANKS, program, scratch / space, STEPS, scratch / "gate", *more]


def hashes(output):
    return re.findall(r"^hash (\w+)$", output, re.M)


def end_daemon(nodes, node):
    """Ends all processes of Open MPI on the node. The ranks' data in memory stays."""
    for pid in nodes.processes(node):
        with suppress(OSError):
            if (Path("/proc") / str(pid) / "comm").read_text() == "prted\n":
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("way", ["node", *rarely("daemon")])
def test_a_daemon_is_lost(nodes, scratch, way):
    status, output = run("--in-job", "--hosts", "c1:2,c2:2", "--restarts", 0, *command(nodes, scratch, "calm"))
    assert status == 0, output
    calm = hashes(output)
    hosts = ["--hosts", "n1:2,n2:2", "--spares", "n3:2"]
    with Run("--in-job", *hosts, *command(nodes, scratch, "space", f"wait@{STOP}")) as running:
        running.until(f"^waiting at step {STOP}$")
        if way == "node":
            nodes.lose("n2")
        else:
            end_daemon(nodes, "n2")
        running.until("^mainstay: start 1 failed")
        (scratch / f"gate.{STOP}").touch()
        status, output = running.end()
    assert status == 0 and hashes(output) == calm, output
    why = "it could not go on by itself, for example because a node was lost, or Open MPI's own daemon on it"
    assert re.search(f"^mainstay: start 1 failed: exit status (0|137), .*; {why}$", output, re.M), output
    # From memory alone: the space has no revision. Numbers beyond 3: ranks without a daemon may save a few times more
    # before they end.
    assert re.search(
        rf"^mainstay: going on from revision [{'3' if way == 'node' else '3-6'}] \(lineage 1\) of ", output, re.M
    ), output
    assert "the job went on" not in output and "begins anew" not in output, output
    # Open MPI cannot always start a daemon right after another daemon ended there.
    again = 2 * ("A daemon failed to report back" in output and "mainstay: start 2 failed" in output)
    assert output.count("mainstay: start ") == 3 + again, output
    assert ("mainstay: n3 replaces n2" in output) == (way == "node"), output
