"""The example comes back bit for bit, and the demo's checks are no decoration: each can fail."""

import tempfile
from pathlib import Path

import dem
import demo
import numpy
import pytest
from build import build
from job import Job
from jobs import run

RANKS = 4
CELLS = (40, 36, 20)
EVERY = 10
KILL_AT = 60
ENDLESS = 10**9  # steps: the job is killed long before
FURTHER = 100  # steps after the last that the killed job told of
LIMIT_S = 60


@pytest.fixture(scope="module")
def folder(mpi):
    """The program and its input, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder) / "jacobi3d", mpi)
        dem.write(Path(folder) / "dem")
        yield Path(folder)


def command(folder, steps, *more):
    nx, ny, nz = CELLS
    return [folder / "jacobi3d", "--dem", folder / "dem", "--nx", nx, "--ny", ny, "--nz", nz,
            "--steps", steps, *more]  # fmt: skip


@pytest.mark.parametrize("stage", ["pool", "direct"])
def test_killed_and_started_again_it_gives_the_undisturbed_bits(folder, mpi, scratch, stage):
    saving = ["--space", scratch / "space", "--every", EVERY, "--stage", stage]
    reached = 0
    with Job(RANKS, command(folder, ENDLESS, *saving), scratch, LIMIT_S, mpi) as job:
        for line in job.lines():
            if match := demo.STEP.match(line):
                reached = int(match[1])
                if reached == KILL_AT:
                    job.kill_rank(1)
        assert job.wait() != 0, job.tail()

    steps = reached + FURTHER
    out = ["--first", scratch / "first", "--out", scratch / "again"]
    status, output = run(RANKS, command(folder, steps, *saving, *out), scratch, mpi=mpi)
    assert status == 0, output
    [restored] = [int(match[2]) for line in output.splitlines() if (match := demo.RESTORED.match(line))]
    assert 0 < restored < steps and restored % EVERY == 0

    undisturbed = ["--no-checkpoint", "--out", scratch / "undisturbed"]
    status, output = run(RANKS, command(folder, steps, *undisturbed), scratch, mpi=mpi)
    assert status == 0, output
    first, again, expected = ((scratch / name).read_bytes() for name in ("first", "again", "undisturbed"))
    assert again == expected
    assert first != again, "the field did not move after the restore: a wrong one could pass"


class FakeJob:
    """A job that does what a test wants the demo to meet."""

    def __init__(self, lines, status):
        self.output, self.status = lines, status

    def __call__(self, *_):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def lines(self):
        yield from self.output

    def kill_rank(self, rank):
        assert rank == demo.KILLED

    def wait(self):
        return self.status

    def tail(self):
        return "\n".join(self.output)


REACHED = f"step {demo.KILL_AT}"
BEGUN = f"restored revision 5, continuing at step {demo.EVERY}"


@pytest.mark.parametrize(
    ("part", "lines", "status", "message"),
    [
        (demo.undisturbed, [], 1, "the undisturbed run failed"),
        (demo.killed, ["step 10"], 1, "ended before a rank could be killed"),
        (demo.killed, [REACHED], 0, "went on without a killed rank"),
        (demo.again, [BEGUN], 1, "started again failed"),
        (demo.again, [], 0, "restored nothing"),
    ],
)
def test_the_demo_notices_a_job_that_does_otherwise(monkeypatch, scratch, part, lines, status, message):
    monkeypatch.setattr(demo, "Job", FakeJob(lines, status))
    timeline = [] if part is demo.undisturbed else [demo.Timeline()]
    with pytest.raises(demo.Wrong, match=message):
        part(scratch, *timeline)


def fields(folder, **changed):
    """Three fields as the demo finds them after a good run; some of them changed."""
    first = numpy.zeros(demo.CELLS)
    last = first + 1
    for name, field in {"undisturbed": last, "again": last, "restored": first, **changed}.items():
        field.tofile(folder / name)


def flipped(cell, bit):
    """The last field with one bit of one cell flipped."""
    field = numpy.zeros(demo.CELLS) + 1
    field.view("u8").flat[cell] ^= numpy.uint64(1 << bit)
    return field


def test_the_demo_takes_a_good_field(scratch):
    fields(scratch)
    _, moved, most = demo.compare(scratch)
    assert (moved, most) == (1, 1)


@pytest.mark.parametrize(("cell", "bit"), [(0, 0), (0, 63), (demo.CELLS[2] * 77 + 5, 51), (-1, 0), (-1, 63)])
def test_the_demo_notices_one_wrong_bit(scratch, cell, bit):
    fields(scratch, again=flipped(cell, bit))
    with pytest.raises(demo.Wrong, match=r"^1 of \d+ cells differ"):
        demo.compare(scratch)


@pytest.mark.parametrize("restored", [numpy.ones(demo.CELLS), numpy.full(demo.CELLS, 0.95)])
def test_the_demo_notices_a_field_at_rest(scratch, restored):
    fields(scratch, restored=restored)
    with pytest.raises(demo.Wrong, match="hardly moved"):
        demo.compare(scratch)


@pytest.mark.parametrize("step", [0, demo.EVERY, demo.KILL_AT + 2 * demo.EVERY, 5 * demo.EVERY + 1])
def test_the_demo_notices_a_revision_that_cannot_be(monkeypatch, scratch, step):
    monkeypatch.setattr(demo, "build", lambda _: None)
    monkeypatch.setattr(demo.dem, "write", lambda _: None)
    monkeypatch.setattr(demo, "undisturbed", lambda _: 1)
    monkeypatch.setattr(demo, "killed", lambda *_: (demo.KILL_AT, 5 * demo.EVERY))
    monkeypatch.setattr(demo, "again", lambda *_: (7, step))
    with pytest.raises(demo.Wrong, match=f"revision 7 is of step {step}, but"):
        demo.demo(scratch)
