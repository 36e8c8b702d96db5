"""The example loses nodes at random, in both languages: jobs on one space, each with a killed node and most without
its memory, come back from the rest; the last ends with the bits of an undisturbed run. Beside it test_copies.py does
so with a program of the tests: together they are the thirty kills that each run of the tests has."""

import random
import time
from contextlib import suppress

import dem
import demo
import pytest
from build import HERE, build
from copying import Nodes
from mpi import MPIS
from programs import place
from staged import pool_directory
from ways import in_turn

pytestmark = pytest.mark.campaign  # what is lost, and when, is left to chance

CELLS = {"--nx": 80, "--ny": 72, "--nz": 40}  # so many that a job does not outrun who reads what it tells
EVERY = 5  # odd: the field is in one array or the other
# Steps after the last printed step of a killed job. Output that was printed but not passed on is lost; a pipe's content
# limits it.
FURTHER = {"c": 3000, "python": 1000}
KILLS = {"c": 6, "python": 4}  # ten in test_copies.py with each MPI
SEATS = {"c": ["011", "011", "001", "0101"], "python": ["01", "01", "001"]}
CAMPAIGN_KILLS = 63  # for each language and MPI: half of five hundred


class Example(Nodes):
    """Jobs of the example on nodes."""

    def __init__(self, mpi, folder, pools, language):
        self.example = place(mpi, "jacobi3d-on-nodes")
        build(self.example, mpi)
        in_language = [self.example] if language == "c" else [mpi.command("python"), HERE / "jacobi3d.py"]
        super().__init__(mpi, folder, pools, program=in_language)
        dem.write(folder / "dem")

    def words(self, steps, *more):
        cells = [word for option in CELLS.items() for word in option]
        return ["--dem", self.folder / "dem", *cells, "--steps", steps, "--progress", 1, *more]

    def saving(self, steps, *more):
        return self.words(steps, "--space", self.space, "--every", EVERY, *more)

    def loses(self, seats, node, after, delay_s):
        """A job with a node that dies this number of steps after the restored step, or, with 0, before the restore.
        Returns the restored step, and the last printed step."""
        came, reached, dead = 0, None, False
        with self.job(seats, *self.saving(10**9)) as job:
            for line in job.lines():
                if match := demo.RESTORED.match(line):
                    came = int(match[2])
                if match := demo.STEP.match(line):
                    reached = int(match[1])
                if not dead and (line.startswith("grid ") if after == 0 else reached and reached >= came + after):
                    time.sleep(delay_s)
                    for rank in (rank for rank, seat in enumerate(seats) if seat == node):
                        # mpiexec may have seen the first rank die and ended the others.
                        with suppress(ProcessLookupError):
                            job.kill_rank(rank)
                    dead = True
            status, output = job.wait(), "\n".join(job.output)
        assert status != 0 and dead, output
        return came, reached, output


def sure_of(came, reached):
    """The newest step with a checkpoint on all its nodes, for a job that restored one step and printed another: the
    checkpoint before the last one that returned."""
    returned = (reached - 1) // EVERY * EVERY
    return max(came, returned - EVERY)


def kills(nodes, language, seed, count):
    chance, floor, latest, story = random.Random(seed), 0, 0, [f"seed {seed}"]
    # One node can be lost without a loss of data: copies are on two nodes once a job has settled a checkpoint.
    spare = "01"
    for _ in range(count):
        crowded = "1" if spare == "0" else "0"
        seats = chance.choice([*SEATS[language], len(SEATS[language][0]) * crowded])
        victim = chance.choice(sorted(set(seats)))
        after, delay_s = (
            chance.choice([0, 1, *(chance.randrange(2, 4 * EVERY) for _ in range(6))]),
            chance.random() * 0.01,
        )
        story.append(f"node {victim} of {seats} is killed {after} steps on and {1000 * delay_s:.1f} ms; ")
        came, reached, output = nodes.loses(seats, victim, after, delay_s)
        story[-1] += f"came from {came}, told of {reached}; "
        if reached is not None:
            told = "\n".join([*story, output])
            assert floor <= came <= latest + FURTHER[language] and "going on" not in output, told
            latest = max(latest, reached)
            sure = sure_of(came, reached)
            # The restored revision may be newer, from a job that died before all of its copies were made. Without the
            # spare it is lost.
            if sure > came:
                spare = "01" if len(set(seats)) > 1 else "10"[int(seats[0])]
                floor = sure
        if chance.random() < 0.8:
            spare = chance.choice(spare)
            if (nodes.pools / spare).exists():
                nodes.lose(spare)
                story[-1] += f"{spare} is lost"
    ends_well(nodes, SEATS[language][0], floor, latest + FURTHER[language], "\n".join(story))


def ends_well(nodes, seats, floor, steps, story):
    first, again, calm = (nodes.folder / name for name in ("first", "again", "calm"))
    output = finished(nodes, seats, nodes.saving(steps, "--first", first, "--out", again), story)
    restored = [int(match[2]) for line in output.splitlines() if (match := demo.RESTORED.match(line))]
    assert floor == 0 or (restored and floor <= restored[0] < steps), f"{story}\n{output}"
    assert not nodes.left(), nodes.left()
    nodes.program = [nodes.example]  # of the same bits
    finished(nodes, seats, nodes.words(steps, "--no-checkpoint", "--out", calm), story)
    assert again.read_bytes() == calm.read_bytes(), story
    assert first.read_bytes() != again.read_bytes(), "the field did not move after the restore: a wrong one could pass"


def finished(nodes, seats, words, story):
    with nodes.job(seats, *words) as job:
        for _ in job.lines():
            pass
        status, output = job.wait(), "\n".join(job.output)
    assert status == 0, f"{story}\n{output}"
    return output


@pytest.fixture
def pools(monkeypatch):
    monkeypatch.setenv("MAINSTAY_PFS_EVERY", "0")
    with pool_directory() as folder:
        yield folder


@pytest.mark.parametrize(("language", "mpi"), in_turn(["c", "python"], MPIS), indirect=["mpi"])
def test_kills_over_nodes_and_steps(mpi, scratch, pools, language):
    kills(Example(mpi, scratch, pools, language), language, f"{mpi} {language}", KILLS[language])


@pytest.mark.campaign
@pytest.mark.parametrize("language", ["c", "python"])
def test_many_kills_over_nodes_and_steps(mpi, scratch, pools, language):
    kills(Example(mpi, scratch, pools, language), language, f"{mpi} {language} many", CAMPAIGN_KILLS)
