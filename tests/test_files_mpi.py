"""`mainstay files` with files that several ranks write: by MPI-IO on one node and on two, without MPI-IO, and in sets."""

import errno
import os
import re
import subprocess
from pathlib import Path

import library
import pytest
from command import MAINSTAY
from limits import LIMIT_S, until
from nodes import nodes as made_nodes
from mpi import MPICH
from programs import place
from ways import rarely

SOURCE = Path(__file__).resolve().parent / "files" / "mpi_io.c"
BLOCK, BLOCKS = 1000, 40  # as in the program
ONE, TWO = {"n1": 3}, {"n1": 2, "n2": 1}  # ranks of the nodes
EVEN = {"n1": 2, "n2": 2}
# Each node has its own memory.
PROTECTED = 'exec "$0" files --stage "$MAINSTAY_POOL_DIRECTORY/stage" --match "restart*" "$@"'


class Job:
    """Runs jobs with their files in one folder."""

    def __init__(self, nodes, mpi, scratch):
        self.nodes, self.mpi = nodes, mpi
        self.folder, self.temporary = scratch / "files", scratch / "temporary"
        self.folder.mkdir()
        self.temporary.mkdir()

    @property
    def path(self):
        return self.folder / "restart"

    def words(self, places, *calls, options=("--keep", 9), program=None):
        """The command line of a job that makes these calls."""
        words = [
            *self.mpiexec(), hosts_of(places), "-n", sum(places.values()),
            "sh", "-c", PROTECTED, MAINSTAY, *options, "--", *(program or [build(self.mpi)]), self.path, *calls,
        ]  # fmt: skip
        return list(map(str, words))

    def mpiexec(self):
        """The words before the list of hosts."""
        # A node may have more ranks than this machine has cores.
        unbound = ["-hosts"] if self.mpi is MPICH else ["--bind-to", "none", "--host"]
        return [*self.nodes.mpiexec(self.mpi), *unbound]

    def how(self):
        variables = {**os.environ, "TMPDIR": str(self.temporary)}
        return {"env": variables, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}

    def run(self, places, *calls, code=0, **more):
        """Runs a job, and returns its output."""
        words = self.words(places, *calls, **more)
        done = subprocess.run(words, **self.how(), stdin=subprocess.DEVNULL, timeout=40)
        assert code is None or done.returncode == code, done.stdout
        return done.stdout

    def good(self, places, *calls, **how):
        """Runs a job. Each call of each rank must succeed."""
        output = self.run(places, *calls, **how)
        ranks = range(sum(places.values()))
        assert sorted(results(output)) == sorted((str(r), call, "ok") for r in ranks for call in calls), output

    def killed(self, places, *calls, **how):
        assert not re.search(f"^. {calls[-1]} ", self.run(places, *calls, code=None, **how), re.M)

    def generations(self):
        return len(list((self.folder / ".mainstay" / "kept").glob("restart.g*[0-9]")))

    def unfinished(self):
        """The files in `.mainstay`: files without their names, claims of names, and sets."""
        beside = self.folder / ".mainstay"
        return [path for part in ("writing", "claims", "sets") for path in (beside / part).glob("*")]


@pytest.fixture
def job(mpi, scratch):
    mpi.found()
    with made_nodes() as nodes:
        yield Job(nodes, mpi, scratch)
    mpi.clear()


def build(mpi):
    program = place(mpi, "mpi_io")
    words = [mpi.command("mpicc"), "-std=gnu11", "-O1", *library.WARNINGS, SOURCE]
    library.once(program, words, [SOURCE], lambda made: library.run([*words, "-o", made]))
    return program


def hosts_of(places):
    return ",".join(f"{node}:{ranks}" for node, ranks in places.items())


def content(value, size):
    return bytes((at * 7 + value * 31 + at // BLOCK) & 255 for at in range(size))


def whole(value, places):
    return content(value, BLOCK * BLOCKS * sum(places.values()))


def part(value, places, ranks):
    """The content of a file with the blocks of these ranks alone."""
    count, found = sum(places.values()), bytearray(whole(value, places))
    for block in range(BLOCKS * count):
        if block % count not in ranks:
            found[block * BLOCK : (block + 1) * BLOCK] = bytes(BLOCK)
    end = max(block for block in range(BLOCKS * count) if block % count in ranks)
    return bytes(found[: (end + 1) * BLOCK])


def results(output):
    return re.findall(r"^(\d) (\S+) (-?\w+)$", output, re.M)


@pytest.mark.each_mpi
@pytest.mark.parametrize("places", [ONE, TWO], ids=["one", "two"])
def test_a_file_that_all_ranks_write_gets_its_name_once_all_have_closed_it(job, places):
    job.good(places, "create", "write:1", "check:1", "close", "look:1")
    assert (job.path.read_bytes(), job.generations()) == (whole(1, places), 1)
    # Without truncation the file keeps the bytes that no rank writes.
    job.good(places, "update", "check:1", "write:2", "check:2", "close", "look:2", "readonly", "check:2", "close")
    assert (job.path.read_bytes(), job.generations()) == (whole(2, places), 2)
    job.good(places, "update", "size:40500", "close", "create", "size:0", "write:3", "close", "look:3")
    assert (job.path.read_bytes(), job.generations()) == (whole(3, places), 4)
    assert (job.folder / ".mainstay/kept/restart.g3").read_bytes() == whole(2, places)[:40500]
    job.good(places, "delete", "barrier", "create", "write:4", "close", "barrier", "delete")
    assert (job.path.exists(), job.generations(), job.unfinished()) == (False, 0, [])


@pytest.mark.parametrize("killed", [2, *rarely(0, 1)])
@pytest.mark.parametrize("places", [TWO, *rarely(ONE)], ids=lambda places: str(len(places)))
@pytest.mark.parametrize("calls", [["write:2"], *rarely([], ["write:2", "check:2"])], ids=len)
def test_a_killed_rank_leaves_the_previous_file(job, places, killed, calls):
    job.good(places, "create", "write:1", "close")
    job.killed(places, "update", *calls, "barrier", f"kill:{killed}", "barrier", "close")
    assert job.path.read_bytes() == whole(1, places)
    # A new start reads the previous file.
    job.good(places, "look:1", "update", "write:3", "close", "look:3")
    assert (job.path.read_bytes(), job.unfinished()) == (whole(3, places), [])
    # On several nodes no rank returns from its close before the file is durable. Then a helper gives it the name.
    closed = ["close", "barrier"] if places is ONE else ["close"]
    job.killed(places, "update", "write:4", *closed, f"kill:{killed}", "readonly")
    until(lambda: job.path.read_bytes() == whole(4, places) and not job.unfinished())


@pytest.mark.campaign
@pytest.mark.parametrize("lost", TWO)
def test_the_rest_of_a_lost_node_is_dropped_at_the_next_start(job, lost):
    job.good(TWO, "create", "write:1", "close")
    words = job.words(TWO, "update", "write:2", "barrier", "pause")
    with subprocess.Popen(words, **job.how(), stdin=subprocess.DEVNULL) as process:
        told = 0
        while told < 3:
            told += " barrier ok" in process.stdout.readline()
        for node in [lost, *TWO]:
            job.nodes.lose(node)
    assert job.path.read_bytes() == whole(1, TWO)
    # If the loss of the other node has ended the first rank already, its helper has dropped the file.
    assert job.unfinished() != [] or lost == "n2"
    for node in TWO:
        job.nodes.come_back(node)
    job.good(TWO, "look:1", "create", "write:3", "close", "look:3")
    assert (job.path.read_bytes(), job.unfinished()) == (whole(3, TWO), [])


@pytest.mark.parametrize("places", [TWO, *rarely(ONE)], ids=lambda places: str(len(places)))
def test_the_second_node_cannot_open_a_file_without_mpi(job, places):
    output = job.run(places, "posix:1")
    opened = {int(rank) for rank, _, result in results(output) if result == "ok"}
    assert len(results(output)) == 3, output
    assert job.path.read_bytes() == part(1, places, opened)
    if places is ONE:
        assert opened == {0, 1, 2}
        return
    assert opened in ({0, 1}, {2}), output
    assert {result for _, _, result in results(output) if result != "ok"} == {str(errno.EBUSY)}
    assert "another node of this job has it open to write" in output
    assert job.unfinished() == []


@pytest.mark.each_mpi
def test_two_groups_that_open_one_name_at_a_time_write_no_mixture(job):
    output = job.run(EVEN, "halves:1")
    opened = {int(rank) for rank, _, result in results(output) if result == "ok"}
    assert opened in ({0, 2}, {1, 3}), output
    assert job.path.read_bytes() == part(1, EVEN, opened)
    assert (job.generations(), job.unfinished()) == (1, [])


@pytest.mark.each_mpi
def test_a_set_of_two_nodes_becomes_whole_at_once(job):
    """A killed job leaves nothing behind. Its helpers may serve the next job, or end while the next job runs."""
    options = ["--set", "{}.*"]

    def members():
        return [(job.folder / f"restart.{rank}").read_bytes() for rank in range(3)]

    job.good(TWO, "member:1", "barrier", "member:2", options=options)
    assert members() == 3 * [content(2, BLOCK)]
    # Rank 2 is alone on the other node.
    job.killed(TWO, "torn:2", "barrier", options=options)
    assert members() == 3 * [content(2, BLOCK)]
    job.good(TWO, "member:3", options=options)
    assert members() == 3 * [content(3, BLOCK)]
    until(lambda: not job.unfinished())
    job.killed(TWO, "torn:2", "barrier", options=options)
    until(lambda: not job.unfinished())
    assert members() == 3 * [content(3, BLOCK)]


IN_PYTHON = """
import sys
from mpi4py import MPI
ranks = MPI.COMM_WORLD
file = MPI.File.Open(ranks, sys.argv[1], MPI.MODE_CREATE | MPI.MODE_WRONLY)
file.Write_at(ranks.rank * 1000, bytes([65 + ranks.rank]) * 1000)
file.Close()
"""


@pytest.mark.campaign
def test_a_program_in_python_writes_a_file_from_two_nodes(job):
    job.run(TWO, program=[job.mpi.command("python"), "-c", IN_PYTHON])
    assert job.path.read_bytes() == b"A" * 1000 + b"B" * 1000 + b"C" * 1000
    assert (job.generations(), job.unfinished()) == (1, [])
