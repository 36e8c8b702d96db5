"""The example adi reaches the known steady state, and comes back bit for bit."""

import re

import library
import pytest
from job import Job
from jobs import run
from limits import LIMIT_S
from mpi import MPICH, OPENMPI, ROOT

EVERY = 5
ENDLESS = 10**9  # steps: the job is killed long before
FURTHER = 12  # steps after the last that the killed job told of
STEP = re.compile(r"step (\d+): error (\S+)$", re.M)
RESTORED = re.compile(r"^restored revision \d+, continuing at step (\d+)$", re.M)
CHECKPOINT = re.compile(r"^checkpoint \d+ of step (\d+): ", re.M)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The program for each MPI, built when it is first asked for."""
    built = {}

    def program(mpi):
        if mpi not in built:
            built[mpi] = tmp_path_factory.mktemp("adi") / "adi"
            sources = sorted((ROOT / "examples" / "adi").glob("*.c"))
            library.build(built[mpi], sources, "-O3", "-ffp-contract=off", "-lm", mpi=mpi)
        return built[mpi]

    return program


@pytest.fixture
def command(programs):
    def words(steps, *more, cells=(33, 30, 28), mpi=OPENMPI):
        nx, ny, nz = cells
        return [programs(mpi), "--nx", nx, "--ny", ny, "--nz", nz, "--steps", steps, *more]

    return words


def good(ranks, words, scratch, mpi=OPENMPI):
    """The output of a job that ends well."""
    status, output = run(ranks, words, scratch, mpi=mpi)
    assert status == 0, output
    return output


def test_the_error_falls_until_the_known_state_is_found(command, scratch):
    output = good(2, command(60, "--no-checkpoint", "--progress", 20, cells=(16, 24, 20)), scratch)
    errors = [float(error) for _, error in STEP.findall(output)]
    assert len(errors) == 3 and errors[0] < 0.002, errors
    # A method that is not that of these equations is slower, or ends elsewhere.
    assert all(after < before / 50 for before, after in zip(errors, errors[1:])), errors


@pytest.mark.campaign
@pytest.mark.parametrize(("cells", "ranks"), [((9, 11, 7), 2), ((3, 4, 5), 4)])
def test_any_number_of_ranks_computes_the_same_bits(command, scratch, cells, ranks):
    for some in (1, ranks):
        good(some, command(10, "--no-checkpoint", "--out", scratch / str(some), cells=cells), scratch)
    one, more = ((scratch / str(some)).read_bytes() for some in (1, ranks))
    assert len(one) == 8 * 5 * cells[0] * cells[1] * cells[2]
    assert more == one


def killed(ranks, at, words, scratch, mpi):
    """Kills the last rank of a job once it is at a step; returns the last step in the output."""
    reached = 0
    with Job(ranks, words, scratch, LIMIT_S, mpi) as job:
        for line in job.lines():
            if match := STEP.match(line):
                reached = int(match[1])
                if reached == at:
                    job.kill_rank(ranks - 1)
        assert job.wait() != 0, job.tail()
    assert reached >= at, job.tail()
    return reached


@pytest.mark.campaign
@pytest.mark.parametrize(("ranks", "mpi"), [(1, OPENMPI), (2, OPENMPI), (4, OPENMPI), (2, MPICH)], ids=str)
def test_killed_at_any_step_and_started_again_it_gives_the_undisturbed_bits(command, scratch, ranks, mpi):
    at = 3 * EVERY + ranks  # from 3 * EVERY on one checkpoint at least is complete
    saving = ["--space", scratch / "space", "--every", EVERY, "--progress", 1]
    steps = killed(ranks, at, command(ENDLESS, *saving, mpi=mpi), scratch, mpi) + FURTHER

    out = ["--first", scratch / "first", "--out", scratch / "again"]
    output = good(ranks, command(steps, *saving, *out, mpi=mpi), scratch, mpi)
    [step] = [int(step) for step in RESTORED.findall(output)]
    assert 0 < step < steps and step % EVERY == 0, output

    good(ranks, command(steps, "--no-checkpoint", "--out", scratch / "undisturbed", mpi=mpi), scratch, mpi)
    first, again, expected = ((scratch / name).read_bytes() for name in ("first", "again", "undisturbed"))
    assert again == expected
    assert first != again, "the field did not move after the restore: a wrong one could pass"


@pytest.mark.campaign
def test_a_number_of_checkpoints_comes_at_equal_intervals_and_none_at_the_end(command, scratch):
    cells = (9, 9, 9)
    output = good(1, command(8, "--space", scratch / "few", "--checkpoints", 3, cells=cells), scratch)
    assert sorted(map(int, CHECKPOINT.findall(output))) == [2, 4, 6], output
    output = good(1, command(8, "--space", scratch / "every", "--every", 2, cells=cells), scratch)
    assert sorted(map(int, CHECKPOINT.findall(output))) == [2, 4, 6, 8], output


WRONG_OPTIONS = [
    ([], "give --space DIR for the checkpoints, or --no-checkpoint"),
    (["--no-checkpoint", "--nx", "2"], "--nx"),
    (["--no-checkpoint", "--nz", "8193"], "--nz"),
    (["--no-checkpoint", "--steps", "-1"], "--steps"),
    (["--no-checkpoint", "--every", "often"], "--every"),
    (["--no-checkpoint", "--checkpoints", "0"], "--checkpoints"),
    (["--no-checkpoint", "--steps", "10", "--checkpoints", "3"], "--checkpoints N needs --steps that N \\+ 1 divides"),
    (["--no-checkpoint", "--other"], "--other"),
    (["--space"], "--space"),
]


@pytest.mark.campaign
@pytest.mark.parametrize(("options", "named"), WRONG_OPTIONS)
def test_wrong_options_are_refused_by_name_and_once(programs, scratch, options, named):
    status, output = run(2, [programs(OPENMPI), *options], scratch)
    assert status == 2, output
    assert re.search(rf"^adi: .*{named}", output, re.M) and output.count("--help") == 1, output


@pytest.mark.campaign
@pytest.mark.parametrize("cells", [(9, 9, 3), (9, 3, 9)])
def test_a_grid_with_fewer_planes_or_rows_than_ranks_stops_the_job(command, scratch, cells):
    status, output = run(4, command(1, "--no-checkpoint", cells=cells), scratch)
    assert status != 0 and f"{cells[1]} rows and {cells[2]} planes are too few for 4 ranks" in output, output
