"""The example, in both languages, comes back bit for bit, and each check of the demo can fail."""

import re
import struct
import tempfile
from pathlib import Path

import dem
import demo
import numpy
import pytest
from build import HERE, build
from job import Job
from jobs import run
from limits import LIMIT_S
from mpi import MPIS, OPENMPI
from programs import build_c
from ways import in_turn, rarely

RANKS = 4
CELLS = (40, 36, 20)
EVERY = 11  # odd: the field is in one array or the other
KILL_AT = 60
ENDLESS = 10**9  # steps: the job is killed long before
FURTHER = 1000  # steps after the last that the killed job told of
LANGUAGES = ("c", "python")


@pytest.fixture(scope="module")
def folder(mpi):
    """The program and its input, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder) / "jacobi3d", mpi)
        dem.write(Path(folder) / "dem")
        yield Path(folder)


@pytest.fixture
def command(folder, mpi):
    """The words that run the example in a language."""

    def words(language, steps, *more, cells=CELLS):
        program = [folder / "jacobi3d"] if language == "c" else [mpi.command("python"), HERE / "jacobi3d.py"]
        nx, ny, nz = cells
        return [*program, "--dem", folder / "dem", "--nx", nx, "--ny", ny, "--nz", nz, "--steps", steps, *more]

    return words


def good(ranks, words, scratch, mpi):
    """The output of a job that ends well."""
    status, output = run(ranks, words, scratch, mpi=mpi)
    assert status == 0, output
    return output


def kill(words, scratch, mpi):
    """Kills a rank of a job; returns the last step in its output."""
    reached = 0
    with Job(RANKS, words, scratch, LIMIT_S, mpi) as job:
        for line in job.lines():
            if match := demo.STEP.match(line):
                reached = int(match[1])
                if reached == KILL_AT:
                    job.kill_rank(1)
        assert job.wait() != 0, job.tail()
    assert reached >= KILL_AT, job.tail()
    return reached


def restored_step(output):
    [step] = [int(match[2]) for line in output.splitlines() if (match := demo.RESTORED.match(line))]
    assert step > 0 and step % EVERY == 0
    return step


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("stage", "language", "mpi"), in_turn(["pool", "node", "rank", "direct"], LANGUAGES, MPIS), indirect=["mpi"]
)
def test_killed_and_started_again_it_gives_the_undisturbed_bits(command, mpi, scratch, stage, language):
    def means(name):
        return ["--means", scratch / name] if language == "python" else []

    saving = ["--space", scratch / "space", "--every", EVERY, "--stage", stage, *means("means")]
    reached = kill(command(language, ENDLESS, *saving), scratch, mpi)
    steps = reached + FURTHER
    out = ["--first", scratch / "first", "--out", scratch / "again"]
    assert restored_step(good(RANKS, command(language, steps, *saving, *out), scratch, mpi)) < steps

    undisturbed = ["--no-checkpoint", "--out", scratch / "undisturbed", *means("undisturbed means")]
    good(RANKS, command(language, steps, *undisturbed), scratch, mpi)
    first, again, expected = ((scratch / name).read_bytes() for name in ("first", "again", "undisturbed"))
    assert again == expected
    assert first != again, "the field did not move after the restore: a wrong one could pass"
    if language == "python":
        table = (scratch / "means").read_text()
        assert table == (scratch / "undisturbed means").read_text() and table.count("\n") == steps // 10 + 1


@pytest.mark.campaign
@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_both_languages_compute_the_same_bits(command, mpi, scratch, ranks):
    for language in LANGUAGES:
        words = command(language, 40, "--no-checkpoint", "--out", scratch / language, cells=(41, 37, 23))
        lines = good(ranks, words, scratch, mpi)
        (scratch / f"{language} lines").write_text(lines)
    assert (scratch / "c").read_bytes() == (scratch / "python").read_bytes()
    assert (scratch / "c lines").read_text() == (scratch / "python lines").read_text()


@pytest.mark.parametrize(("begins", "ends"), [("c", "python"), *rarely(("python", "c"))])
def test_what_one_language_saved_the_other_goes_on_with(command, mpi, scratch, begins, ends):
    saving = ["--space", scratch / "space", "--every", EVERY]
    steps = kill(command(begins, ENDLESS, *saving), scratch, mpi) + FURTHER
    assert restored_step(good(RANKS, command(ends, steps, *saving, "--out", scratch / "again"), scratch, mpi)) < steps
    good(RANKS, command("c", steps, "--no-checkpoint", "--out", scratch / "undisturbed"), scratch, mpi)
    assert (scratch / "again").read_bytes() == (scratch / "undisturbed").read_bytes()


def undisturbed(command, steps, scratch, mpi):
    good(RANKS, command("c", steps, "--no-checkpoint", "--out", scratch / "undisturbed"), scratch, mpi)
    return (scratch / "undisturbed").read_bytes()


@pytest.mark.campaign
@pytest.mark.parametrize("language", LANGUAGES)
def test_other_numbers_of_ranks_go_on_in_the_same_space(command, mpi, scratch, language):
    """Four ranks are killed. Two, three and six go on, each from the revision of the number before."""
    saving = ["--space", scratch / "space", "--every", EVERY]
    reached = kill(command(language, ENDLESS, *saving), scratch, mpi)
    # The killed job's staged data counts, and steps that it could not print any more.
    earliest, latest = reached - reached % EVERY - EVERY, reached + FURTHER
    for ranks in (2, 3, 6):
        steps = latest + 3 * EVERY
        out = good(ranks, command(language, steps, *saving, "--out", scratch / "field"), scratch, mpi)
        assert earliest <= restored_step(out) <= latest, out
        earliest, latest = steps - EVERY, steps
        assert len(list((scratch / "space").glob("layout-*"))) == 1, "the old layout is still there"
    assert (scratch / "field").read_bytes() == undisturbed(command, steps, scratch, mpi)


@pytest.mark.campaign
@pytest.mark.parametrize("language", LANGUAGES)
def test_other_numbers_of_ranks_go_on_in_a_space_of_their_own(command, mpi, scratch, language):
    saved, steps = 3 * EVERY, 6 * EVERY
    good(RANKS, command("c", saved, "--space", scratch / "space", "--every", EVERY), scratch, mpi)
    expected = undisturbed(command, steps, scratch, mpi)
    for ranks in (2, 3, 6):
        saving = ["--space", scratch / f"space {ranks}", "--from", scratch / "space", "--every", EVERY]
        # After a stop on the way, it goes on from its own revision.
        out = good(ranks, command(language, steps - EVERY, *saving), scratch, mpi)
        assert f"begun from revision 3 of {scratch / 'space'} at step {saved}" in out, out
        out = good(ranks, command(language, steps, *saving, "--out", scratch / "field"), scratch, mpi)
        assert restored_step(out) == steps - EVERY
        assert (scratch / "field").read_bytes() == expected, f"{ranks} ranks"


WRONG_OPTIONS = [
    ([], "--dem"),
    (["--dem", "dem"], "give --space DIR for the checkpoints, or --no-checkpoint"),
    (["--dem", "dem", "--no-checkpoint", "--nx", "0"], "--nx"),
    (["--dem", "dem", "--no-checkpoint", "--steps", "-1"], "--steps"),
    (["--dem", "dem", "--no-checkpoint", "--steps", "18446744073709551616"], "--steps"),
    (["--dem", "dem", "--no-checkpoint", "--every", "often"], "--every"),
    (["--dem", "dem", "--no-checkpoint", "--keep", "4294967296"], "--keep"),
    (["--dem", "dem", "--no-checkpoint", "--stage", "other"], "--stage"),
    (["--dem", "dem", "--no-checkpoint", "--other"], "--other"),
    (["--dem", "dem", "--no-checkpoint", "more"], "more"),
    (["--dem"], "--dem"),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The words that start the program in each language, under the first MPI."""
    program = tmp_path_factory.mktemp("both") / "jacobi3d"
    build(program)
    return {"c": [program], "python": [OPENMPI.command("python"), HERE / "jacobi3d.py"]}


@pytest.mark.campaign
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("options", "named"), WRONG_OPTIONS)
def test_wrong_options_are_refused_by_name_and_once(both, scratch, language, options, named):
    status, output = run(2, [*both[language], *options], scratch)
    assert status == 2, output
    assert re.search(rf"^jacobi3d: .*{named}", output, re.M) and output.count("--help") == 1, output


HEIGHTS = struct.pack("<8sIIdd4f", b"ELEVAT01", 2, 2, 1e4, 1e4, 300, 400, 500, 600)
WRONG_ELEVATIONS = [
    (None, "No such file"),
    (HEIGHTS[:20], "too short for an elevation model"),
    (b"ELEVAT02" + HEIGHTS[8:], "not an elevation model"),
    (struct.pack("<8sII", b"ELEVAT01", 1, 2) + HEIGHTS[16:], "1 x 2 heights"),
    (struct.pack("<8sIId", b"ELEVAT01", 2, 2, float("nan")) + HEIGHTS[24:], "which cannot be"),
    (HEIGHTS[:-1], "cut short"),
    (HEIGHTS + b"x", "longer than its header says"),
    (HEIGHTS[:-4] + struct.pack("<f", float("nan")), "height 3 is nan m"),
]


@pytest.mark.campaign
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("content", "message"), WRONG_ELEVATIONS, ids=[message for _, message in WRONG_ELEVATIONS])
def test_a_wrong_elevation_model_stops_the_job(both, scratch, language, content, message):
    if content is not None:
        (scratch / "dem").write_bytes(content)
    status, output = run(2, [*both[language], "--dem", scratch / "dem", "--no-checkpoint"], scratch)
    # mpiexec also prints, sometimes on the same line.
    assert status != 0 and re.search(rf"jacobi3d: {scratch / 'dem'}: .*{message}", output), output


@pytest.mark.campaign
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_grid_with_fewer_cells_than_ranks_stops_the_job(both, scratch, language):
    dem.write(scratch / "dem")
    words = [*both[language], "--dem", scratch / "dem", "--no-checkpoint", "--nx", 1]
    status, output = run(2, words, scratch)
    assert status != 0 and "1 cells along side 1 are too few for 2 ranks" in output, output


class FakeJob:
    """A job that shows the behaviour that a test wants the demo to meet."""

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
        assert rank in demo.LOST

    def wait(self):
        return self.status

    def tail(self):
        return "\n".join(self.output)


@pytest.fixture(params=[demo.C, demo.PYTHON], ids=str)
def version(request, scratch):
    request.param.folder(scratch).mkdir()
    return request.param


@pytest.mark.parametrize(
    ("part", "line", "status", "message"),
    [
        (demo.undisturbed, "", 1, "the undisturbed run failed"),
        (demo.killed, "step 10", 1, "ended before a node could be lost"),
        (demo.killed, "step {0.kill_at}", 0, "went on without the node that was lost"),
        (demo.again, "restored revision 5, continuing at step {0.every}", 1, "started again failed"),
        (demo.again, "", 0, "restored nothing"),
        (demo.goes_on, "step 10", 0, "did not go on without"),
        (demo.goes_on, "restored revision 5, continuing at step {0.every}", 0, "did not go on without"),
    ],
)
def test_the_demo_notices_a_job_that_does_otherwise(monkeypatch, scratch, version, part, line, status, message):
    monkeypatch.setattr(demo, "Job", FakeJob([line.format(version)], status))
    timeline = [] if part is demo.undisturbed else [demo.Timeline()]
    with pytest.raises(demo.Wrong, match=message):
        part(version, scratch, *timeline)


def test_the_demo_notices_what_was_saved_elsewhere(monkeypatch, scratch, version):
    (version.folder(scratch) / "space").mkdir()
    (version.folder(scratch) / "space" / "layout-000001").touch()
    monkeypatch.setattr(demo, "Job", FakeJob([f"step {version.kill_at}"], 137))
    with pytest.raises(demo.Wrong, match="has saved to its space on disk"):
        demo.killed(version, scratch, demo.Timeline())


def fields(version, scratch, **changed):
    """Three fields as the demo finds them after a good run; some of them changed."""
    first = numpy.zeros(version.cells)
    last = first + 1
    for name, field in {"undisturbed": last, "again": last, "restored": first, **changed}.items():
        field.tofile(version.folder(scratch) / name)


def flipped(version, cell, bit):
    """The last field with one bit of one cell flipped."""
    field = numpy.zeros(version.cells) + 1
    field.view("u8").flat[cell] ^= numpy.uint64(1 << bit)
    return field


def test_the_demo_takes_a_good_field(version, scratch):
    fields(version, scratch)
    _, moved, most = demo.compare(version, scratch)
    assert (moved, most) == (1, 1)


@pytest.mark.parametrize(("cell", "bit"), [(0, 0), (0, 63), (77 * 56 + 5, 51), (-1, 0), (-1, 63)])
def test_the_demo_notices_one_wrong_bit(version, scratch, cell, bit):
    fields(version, scratch, again=flipped(version, cell, bit))
    with pytest.raises(demo.Wrong, match=r"^1 of \d+ cells differ"):
        demo.compare(version, scratch)


@pytest.mark.parametrize("celsius", [1, 0.95])
def test_the_demo_notices_a_field_at_rest(version, scratch, celsius):
    fields(version, scratch, restored=numpy.full(version.cells, float(celsius)))
    with pytest.raises(demo.Wrong, match="hardly moved"):
        demo.compare(version, scratch)


def table(scratch, steps):
    path = demo.PYTHON.folder(scratch) / "means"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["step,mean_c", *(f"{step},40.5" for step in steps)]) + "\n")


def test_the_demo_counts_the_rows_of_the_table(scratch):
    every = list(range(10, demo.PYTHON.steps + 1, 10))
    table(scratch, every)
    assert demo.check_rows(demo.PYTHON, scratch) == len(every)
    for wrong in (every[:-1], [*every[:19], *every[15:]], [*every[:15], *every[16:]]):
        table(scratch, wrong)
        with pytest.raises(demo.Wrong, match="rows of the steps"):
            demo.check_rows(demo.PYTHON, scratch)


@pytest.mark.parametrize("version", [demo.C, demo.PYTHON], ids=str)
@pytest.mark.parametrize("wrong", ["nothing", "too old", "too new", "between"])
def test_the_demo_notices_a_revision_that_cannot_be(monkeypatch, scratch, version, wrong):
    saved = version.kill_at - version.kill_at % version.every
    far = 2 * version.every
    step = {"nothing": 0, "too old": saved - far, "too new": saved + far, "between": saved + 1}
    monkeypatch.setattr(demo, "undisturbed", lambda *_: 1)
    monkeypatch.setattr(demo, "killed", lambda *_: (version.kill_at, saved))
    monkeypatch.setattr(demo, "again", lambda *_: (7, step[wrong]))
    monkeypatch.setattr(demo, "rows", lambda *_: [])
    with pytest.raises(demo.Wrong, match=f"revision 7 is of step {step[wrong]}, but"):
        demo.tell(version, scratch)


def test_a_job_has_ended_only_when_all_its_processes_have(scratch):
    """A rank that outlived mpiexec wrote into the folder of the test while that was removed: /proc shows no environment of a
    process whose first thread has ended."""
    late = scratch / "late"
    with Job(1, [build_c(["outlives.c"], "outlives", "-pthread"), late], scratch, LIMIT_S) as job:
        assert job.wait() == 0
        assert late.exists()
