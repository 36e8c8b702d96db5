"""Copies in the memory of other nodes, in real jobs: a job that loses a node comes back from the others, with the
bits of an undisturbed run."""

import functools
import os
import random
import re
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass

import pytest
from command import mainstay as told_by
from mpi import OPENMPI, Mpi
from copying import ENDLESS, Nodes
from staged import pool_directory
from ways import rarely

PAIRS = "0011"
WATCH_S = 30  # for copies to come
OWN_MEMORY = 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"'
LARGE = 1_500_000  # cells: pieces of more than one message
BLOCK = 4096
KILLS = 10  # with each MPI; test_lost_nodes.py has as many more with the example
CAMPAIGN_KILLS = 62  # for each MPI and seed: half of five hundred


@pytest.fixture
def nodes(mpi, scratch, monkeypatch):
    monkeypatch.setenv("MAINSTAY_PFS_EVERY", "0")
    with pool_directory() as pools:
        yield Nodes(mpi, scratch, pools)


@pytest.fixture
def of_openmpi(scratch, monkeypatch):
    """The same with Open MPI alone, for behaviour that does not depend on the MPI."""
    monkeypatch.setenv("MAINSTAY_PFS_EVERY", "0")
    with pool_directory() as pools:
        yield Nodes(OPENMPI, scratch, pools)


@dataclass(frozen=True)
class Inside(Mpi):
    """The same MPI, with jobs that run inside the environment that `before` makes."""

    before: tuple = ()

    def mpiexec(self, ranks, command):
        return [*self.before, *super().mpiexec(ranks, command)]


@functools.cache
def ends_of(program, ranks, cells):
    """The results of the steps of an undisturbed job; filled by `calm`."""
    return {}


def calm(nodes, ranks, steps):
    """The result of an undisturbed job."""
    ends = ends_of(nodes.program[-1], ranks, nodes.cells)
    if steps not in ends:
        space, nodes.space = nodes.space, nodes.folder / f"calm-{steps}"
        said = nodes.run("0" * ranks, steps, MAINSTAY_MEMORY="off")
        nodes.space, ends[steps] = space, said.end
        assert said.step == 0 and said.end, said.output
    return ends[steps]


def ends_well(nodes, seats, steps, came_from, **variables):
    """A job restores one of these steps, and ends with the bits of an undisturbed job."""
    said = nodes.ends(seats, steps, **variables)
    assert said.step in came_from, said.output
    assert said.end == calm(nodes, len(seats), steps), said.output
    return said


@pytest.mark.parametrize("language", ["c", *rarely("python")])
def test_each_of_two_nodes_is_lost(nodes, language):
    nodes = Nodes(nodes.mpi, nodes.folder, nodes.pools, language)
    assert nodes.killed(PAIRS, 0, "computed", 3).step == 0
    nodes.lose("0")
    assert nodes.killed(PAIRS, 1, "computed", 5).step == 2
    nodes.lose("1")
    ends_well(nodes, PAIRS, 6, [4])


@pytest.mark.campaign
def test_a_job_goes_on_with_the_nodes_that_are_left(of_openmpi):
    nodes, step = of_openmpi, 0
    for lost, left in ("01", "10"):
        assert nodes.killed("0001", lost, "waited", step + 2).step == step
        nodes.lose(lost)
        assert nodes.killed(4 * left, left, "waited", step + 4).step == step + 2
        step += 4
    ends_well(nodes, "0001", step + 1, [step])


@pytest.mark.campaign
def test_two_of_three_nodes_are_lost(of_openmpi):
    nodes, three = of_openmpi, {"MAINSTAY_MEMORY_COPIES": 3}
    nodes.killed("012", 1, "computed", 3, **three)
    assert all(nodes.copies_of(node, copy) for node in "012" for copy in (1, 2))
    nodes.lose("01")
    ends_well(nodes, "222", 4, [2], **three)


DISKS = {
    "ON_NODE": 'export MAINSTAY_DISK="$DISKS/$MAINSTAY_NODE"',
    "MAINSTAY_MEMORY": "off",
    "MAINSTAY_DISK_EVERY": 1,
    "MAINSTAY_DISK_COPIES": 2,
}


@pytest.mark.campaign
def test_the_disk_of_each_of_two_nodes_is_lost(nodes):
    """A level on the nodes' disks alone, with copies on other nodes' disks."""
    disks = {**DISKS, "DISKS": nodes.folder / "disks"}
    assert nodes.killed(PAIRS, 0, "computed", 3, **disks).step == 0
    shutil.rmtree(nodes.folder / "disks" / "0")
    assert nodes.killed(PAIRS, 1, "computed", 5, **disks).step == 2
    shutil.rmtree(nodes.folder / "disks" / "1")
    ends_well(nodes, PAIRS, 6, [4], **disks)


def flip(path, _):
    content = bytearray(path.read_bytes())
    for at in (20, *range(3 * len(content) // 8, len(content), BLOCK)):
        content[at] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "flipped": flip,
    "cut to half": lambda path, _: os.truncate(path, path.stat().st_size // 2),
    "filled": lambda path, _: path.write_bytes(bytes([7]) * path.stat().st_size),
    "of another job": lambda path, other: path.write_bytes(other),
}


@pytest.mark.campaign
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("copy", [False, True], ids=["own", "copy"])
def test_whichever_copy_is_damaged_the_other_is_taken(nodes, damage, copy):
    """A file that was cut to half its size was opened as a complete one, and the next checkpoint failed there."""

    def files():
        level = nodes.copies_of("0") if copy else nodes.level_of("0")
        return sorted(level.glob("*.mainstay"))

    space, nodes.space = nodes.space, nodes.folder / "other"
    nodes.killed(PAIRS, 0, "computed", 3)
    other, nodes.space = files()[0].read_bytes(), space
    nodes.lose("01")
    nodes.killed(PAIRS, 0, "computed", 3)
    DAMAGES[damage](files()[0], other)
    assert nodes.killed(PAIRS, 1, "waited", 5).step == 2
    # Node 1 is lost: only node 0 has data.
    nodes.lose("1")
    assert "WRONG" not in ends_well(nodes, PAIRS, 6, [5]).output


# The ways to tell ranks that nodes 0 and 1 are in one rack, and nodes 2 and 3 in another.
RACKS = {
    "a variable": 'export MAINSTAY_DOMAIN="rack$((MAINSTAY_NODE / 2))"',
    "a file": '[ "$(id -u)" = 0 ] || user=--map-root-user\n'
    'set -- unshare --uts $user sh -c \'hostname "host$MAINSTAY_NODE" && exec "$@"\' sh "$@"',
    "Slurm": 'export SLURM_TOPOLOGY_ADDR_PATTERN=switch.node SLURM_TOPOLOGY_ADDR="rack$((MAINSTAY_NODE / 2)).n$MAINSTAY_NODE"',
}


@pytest.mark.campaign
@pytest.mark.parametrize("way", RACKS)
def test_copies_lie_in_another_rack(of_openmpi, way):
    nodes, told = of_openmpi, {"ON_NODE": RACKS[way]}
    if way == "a file":
        hosts = nodes.folder / "hosts"
        hosts.write_text("".join(f"host{node} rack{node // 2}\n" for node in range(4)))
        told["MAINSTAY_DOMAIN_FILE"] = hosts
    nodes.killed("0123", 0, "computed", 3, **told)
    holders = dict(pair_of(nodes, node) for node in "0123")
    assert all(int(node) // 2 != int(holder) // 2 for node, holder in holders.items()), holders
    if way == "a variable":
        nodes.lose("01")
        ends_well(nodes, "2323", 4, [2], **told)


MOMENTS = ["saved", "moved", 500, 10_000]


@pytest.mark.campaign
def test_killed_while_copies_are_under_way(nodes):
    nodes.cells, came = LARGE // 4, [0]
    for number, moment in enumerate(MOMENTS):
        node, step = number % 2, 3 * (number + 1)
        said = nodes.killed(PAIRS, node, moment, step)
        assert said.step in came, (moment, said.output)
        nodes.lose(str(node))
        came = [step - 1, step]
    ends_well(nodes, PAIRS, 3 * len(MOMENTS) + 1, came)


@pytest.mark.campaign
def test_killed_before_the_first_checkpoint(of_openmpi):
    """A lost node becomes complete again only at a checkpoint. It can be lost again, but not the other one."""
    nodes = of_openmpi
    nodes.killed(PAIRS, 1, "computed", 1)
    nodes.lose("1")
    assert nodes.killed(PAIRS, 1, "computed", 3).step == 0
    for moment in ("opened", "computed"):
        nodes.lose("1")
        assert nodes.killed(PAIRS, 1, moment, 1).step in (None, 2)
    nodes.lose("1")
    ends_well(nodes, PAIRS, 4, [2])


@pytest.mark.campaign
def test_a_job_that_came_back_ends_at_once(of_openmpi):
    """Data that exists only in copies is not lost with the memory that a close removes."""
    nodes = of_openmpi
    nodes.killed(PAIRS, 0, "computed", 3)
    nodes.lose("0")
    ends_well(nodes, PAIRS, 2, [2])
    ends_well(nodes, PAIRS, 3, [2])


@pytest.mark.campaign
def test_blocking_copies_are_there_when_the_call_returns(of_openmpi):
    nodes, blocking = of_openmpi, {"MAINSTAY_EXCHANGE": "blocking"}
    nodes.killed(PAIRS, 0, "saved", 3, "on", **blocking)
    nodes.lose("0")
    ends_well(nodes, PAIRS, 4, [3], **blocking)


def flipped(path, _):
    content = bytearray(path.read_bytes())
    full = [at for at in range(0, len(content), BLOCK) if content.count(0, at, at + BLOCK) < BLOCK // 4]
    assert full, path
    for at in full:
        content[at + 7] ^= 4
    path.write_bytes(content)


def truncated(path, _):
    os.truncate(path, path.stat().st_size // 2)


def filled(path, _):
    """The header, too."""
    path.write_bytes(path.stat().st_size * b"\xa5")


def of_the_job_before(path, before):
    path.write_bytes(before)


def of_another_job(path, before):
    path.write_bytes(before)


def layout(directory):
    (found,) = directory.glob("layout-*")
    return found


@pytest.mark.campaign
@pytest.mark.parametrize("damage", [flipped, truncated, filled, of_the_job_before, of_another_job])
def test_of_two_copies_one_is_damaged(of_openmpi, damage):
    """First the saved shard is damaged; then, after its loss, the first of its two copies."""
    nodes, three, space = of_openmpi, {"MAINSTAY_MEMORY_COPIES": 3}, of_openmpi.space
    if damage is of_another_job:
        nodes.space = nodes.folder / "another"
    nodes.killed("012", 0, "computed", 3, **three)
    before = [layout(where).read_bytes() for where in (nodes.level_of("1"), nodes.copies_of("1"))]
    if damage is of_another_job:
        nodes.lose("012")
        nodes.space = space
    nodes.killed("012", 0, "computed", 5, **three)
    hurt = layout(nodes.level_of("1"))
    damage(hurt, before[0])
    said = nodes.killed("012", 0, "computed", 7, **three)
    assert said.step == 4 and tells(said, hurt, 1, damage), said.output
    hurt = layout(nodes.copies_of("1"))
    damage(hurt, before[1])
    owner = int(hurt.name.split("-")[2])
    nodes.lose(str(owner))
    said = ends_well(nodes, "012", 8, [6], **three)
    assert tells(said, hurt, owner, damage), said.output


def tells(said, hurt, shard, damage):
    """Whether a job reports the damage. Data that another job removed is not damaged but missing."""
    return str(hurt) in said.skipped or f"shard {shard}: " in said.skipped or damage is of_the_job_before


def saved(nodes, node, revision, shards):
    """Whether the copies of this number of shards on a node have all reached this revision."""
    revisions = told_by("ls", nodes.copies_of(node))["revisions"]
    return any(found["revision"] >= revision and found["shards_found"] == shards for found in revisions)


@pytest.mark.campaign
@pytest.mark.parametrize("call", ["progress", "poll", "due"])
def test_calls_between_steps_bring_the_copies_on(of_openmpi, call):
    nodes = of_openmpi
    with nodes.job(PAIRS, nodes.space, ENDLESS, nodes.cells, call) as job:
        for line in job.lines():
            if line == "stays":
                break
        deadline = time.monotonic() + WATCH_S
        while not all(saved(nodes, node, 2, PAIRS.count(other)) for node, other in ("01", "10")):
            assert time.monotonic() < deadline, job.tail()
            time.sleep(0.02)
        for rank in range(len(PAIRS)):
            with suppress(ProcessLookupError):
                job.kill_rank(rank)
    nodes.lose("0")
    ends_well(nodes, PAIRS, 3, [2])


def pair_of(nodes, node):
    """The node of a rank, and the node that holds the copy of its shard."""
    there = sorted(path.name for path in nodes.pools.iterdir())
    holds = [other for other in there if list(nodes.copies_of(other).glob(f"layout-*-00000{node}-*"))]
    assert len(holds) == 1 and holds != [node]
    return [node, *holds]


@pytest.mark.campaign
def test_a_pair_is_lost_and_the_next_level_is_not(of_openmpi):
    nodes, every = of_openmpi, {"MAINSTAY_PFS_EVERY": 2}
    nodes.killed("0123", 0, "computed", 4, **every)
    lost = pair_of(nodes, "0")
    nodes.lose(lost)
    said = ends_well(nodes, "0123", 5, [2], **every)
    assert "revision 3" in said.skipped, said.output


@pytest.mark.campaign
def test_a_pair_is_lost_and_nothing_is_left(of_openmpi):
    nodes = of_openmpi
    nodes.killed("012", 0, "computed", 3)
    nodes.lose(pair_of(nodes, "0"))
    said = ends_well(nodes, "012", 3, [0])
    (told,) = re.findall("mainstay: no level has a whole revision, the job begins anew: (.*)", said.output)
    assert re.match(r"revision 2 in memory: shards? .* went with the nodes", told), said.output


@pytest.mark.campaign
def test_the_memory_of_all_nodes_is_lost(of_openmpi):
    nodes = of_openmpi
    assert "begins anew" not in nodes.killed("01", 0, "computed", 3).output
    nodes.lose("01")
    said = ends_well(nodes, "01", 3, [0])
    assert "the job begins anew: these nodes have no saved revision" in said.output, said.output


@pytest.mark.campaign
def test_memory_that_is_too_small_says_how_much_it_takes(of_openmpi):
    nodes = of_openmpi
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("memory of its own needs root and the right to mount")
    nodes.mpi = Inside(**vars(nodes.mpi), before=("unshare", "-m", "sh", "-euc", OWN_MEMORY, str(nodes.pools)))
    nodes.cells = LARGE
    said = nodes.run("01", 3)
    assert said.status != 0, said.output
    # The error comes before the first step.
    assert said.step is None and "WRONG restore: DISK_FULL" in said.output, said.output
    told = re.findall(r"(\d+) bytes were to go there, (\d+) are free; (.*)", said.output)
    # Two revisions on a node: of its own rank and of another node's rank.
    assert told and all(int(wanted) > 4 * 8 * LARGE and int(free) < 16 << 20 for wanted, free, _ in told), said.output
    assert all(advice.startswith("free some space or choose another place") for *_, advice in told), said.output


def kills(nodes, seed, count):
    """Jobs on one space, each killed at some moment, most with a lost node. The last one ends in order."""
    chance, floor, story = random.Random(seed), 0, [f"seed {seed}"]
    # One node can be lost without a loss of data: copies are on two nodes once a job has settled a checkpoint.
    spare = "01"
    for number in range(count):
        crowded = "1" if spare == "0" else "0"
        seats = chance.choice([PAIRS, PAIRS, "0001", "0101", 4 * crowded])
        victim = chance.choice(sorted(set(seats)))
        moment = chance.choice(["opened", "computed", "saved", "moved", *(chance.randrange(1, 6000) for _ in range(6))])
        way = chance.choice(["on", "on", "wait"])
        step = floor + chance.randrange(1, 4)
        story.append(f"node {victim} of {seats} is killed, {moment}, step {step}, {way}; ")
        said = nodes.killed(seats, victim, moment, step, way)
        story[-1] += f"came from {said.step}, sure of {said.sure}; "
        if moment != "opened":
            assert said.step is not None and said.step >= floor, "\n".join([*story, said.output])
        if said.sure > (said.step or 0):
            floor = said.sure
            spare = "01" if len(set(seats)) > 1 else "10"[int(seats[0])]
        if chance.random() < 0.8:
            spare = chance.choice(spare)
            if (nodes.pools / spare).exists():
                nodes.lose(spare)
                story[-1] += f"{spare} is lost"
    ends_well(nodes, PAIRS, floor + 30, range(floor, floor + 30))


@pytest.mark.campaign
def test_kills_over_nodes_and_moments(nodes):
    kills(nodes, f"{nodes.mpi}", KILLS)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(2))
def test_many_kills_over_nodes_and_moments(nodes, seed):
    kills(nodes, f"{nodes.mpi} {seed}", CAMPAIGN_KILLS)
