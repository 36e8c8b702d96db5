"""The paper's interface, mainstay_pfs.h, with real MPI; tests/c/pfs.c runs the requested calls."""

import json
import random
import re
import subprocess

import pytest
from job import Job
from jobs import run
from limits import LIMIT_S
from mpi import BUILT, OPENMPI
from programs import SOURCES, build_c, place
from ways import rarely

RANKS = 3
KILLS = 5
MAINSTAY = BUILT / "mainstay"
SAID = re.compile(r"^= (\d+) (\S+) (\S+) (.*)$", re.M)
READ = re.compile(r"revision (\d+) bytes (\d+) seed (\d+)$")


@pytest.fixture(scope="module")
def program(mpi):
    return build_c(["pfs.c"], "pfs", mpi=mpi)


@pytest.fixture
def job(program, mpi, scratch):
    """Makes every rank run the calls. Returns the results of each rank in order: [[(call, status, text)]]."""

    def start(*commands, ranks=RANKS, space="space"):
        status, output = run(ranks, [program, scratch / space, *commands], scratch, mpi=mpi)
        assert status == 0 and "WRONG" not in output, output
        said = [[] for _ in range(ranks)]
        for rank, call, result, text in SAID.findall(output):
            said[int(rank)].append((call, result, text))
        return said

    return start


def shown(space):
    return json.loads(subprocess.check_output([MAINSTAY, "show", space, "--json"], timeout=LIMIT_S))


def results(said, call):
    """The results of this call, by rank."""
    return [[(result, text) for name, result, text in each if name == call] for each in said]


def brought(said, call):
    """For each rank, (revision, bytes, seed) of each successful read by this call."""
    return [[tuple(map(int, READ.match(text).groups())) for _, text in each] for each in results(said, call)]


def sizes(bytes, ranks=RANKS):
    return [0 if rank == 0 and bytes % 2 else bytes + 777 * rank for rank in range(ranks)]


def all_refused(said, call, status, *words):
    """On every rank, with the same words."""
    for rank, each in enumerate(results(said, call)):
        assert len(each) == 1, each
        ((result, text),) = each
        assert result == status and all(word in text for word in words), (rank, result, text)


def test_each_rank_reads_what_it_wrote_last_also_in_another_run(job):
    said = job("open:300000", "read", "size", "write:1:300000", "write:2:200001", "size", "read", "close")
    # An empty space is no error.
    assert [each[0] for each in brought(said, "read")] == [(0, 0, 0)] * RANKS
    of_two = [(2, bytes, 2 if bytes else 0) for bytes in sizes(200001)]
    assert [each[1] for each in brought(said, "read")] == of_two
    assert results(said, "size") == [[("OK", "0"), ("OK", str(bytes))] for bytes in sizes(200001)]
    said = job("open", "read", "write:3:400", "read", "close")
    assert brought(said, "read") == [[two, (3, bytes, 3)] for two, bytes in zip(of_two, sizes(400))]


def test_revisions_that_are_kept_can_be_read_by_number(job, scratch):
    writes = [f"write:{seed}:{10_000 * seed}" for seed in range(1, 8)]
    reads = [f"revision:{number}" for number in (7, 5, 6, 7)]
    said = job("hint:mainstay_keep:3", "open:80000", *writes, *reads, "size:6", "write:8:100", "read", "close")
    for rank, found in enumerate(brought(said, "revision")):
        assert found == [(n, 10_000 * n + 777 * rank, n) for n in (7, 5, 6, 7)]
    # Reading did not go back to an older state.
    assert brought(said, "read") == [[(8, bytes, 8)] for bytes in sizes(100)]
    assert [each for each in results(said, "size")] == [[("OK", str(bytes))] for bytes in sizes(60_000)]
    # As tools see it, and in another run.
    listed = subprocess.check_output([MAINSTAY, "ls", scratch / "space", "--json"], timeout=LIMIT_S)
    assert [each["revision"] for each in json.loads(listed)["revisions"]][:3] == [8, 7, 6]
    said = job("open", "revision:6", "close")
    assert brought(said, "revision") == [[(6, bytes, 6)] for bytes in sizes(60_000)]


@pytest.mark.campaign
def test_a_revision_that_is_not_there_is_told_with_those_that_are(job):
    writes = [f"write:{seed}:1000" for seed in range(1, 6)]
    reasons = {
        -7: "begin at 1",
        0: "begin at 1",
        1: "gone, as keep is 2",
        6: "not been written",
        2**31 - 1: "not been written",
    }
    said = job("hint:mainstay_keep:2", "open", *writes, *[f"revision:{number}" for number in reasons], "read", "close")
    for rank, each in enumerate(results(said, "revision")):
        assert len(each) == len(reasons)
        for (number, why), (status, text) in zip(reasons.items(), each):
            assert status == "REVISION_MISSING" and text.endswith("4, 5"), (rank, status, text)
            assert f"revision {max(number, 0)} " in text and why in text, text
    assert brought(said, "read") == [[(5, bytes, 5)] for bytes in sizes(1000)]


@pytest.mark.campaign
def test_a_portion_that_is_full_goes_on_at_its_start(job, scratch):
    """Many times the capacity of the space goes through it. After each write the last two revisions exist."""
    bytes, revisions = 500_000, 20
    said = job(f"open:{bytes + 777 * RANKS}", f"many:1:{revisions}:{bytes}", "close")
    for rank, each in enumerate(said):
        for seed in range(1, revisions + 1):
            size = [bytes - seed % 3 * (bytes // 4) + 777 * rank, bytes - (seed - 1) % 3 * (bytes // 4) + 777 * rank]
            found = [tuple(map(int, READ.match(text).groups())) for call, _, text in each if call.endswith(f":{seed}")]
            assert found == [(seed, size[0], seed), (seed - 1, size[1], seed - 1)][: min(seed, 2)], (rank, seed)
    layouts = shown(scratch / "space")["layouts"]
    assert len(layouts) == 1
    for portion in layouts[0]["portions"]:
        assert portion["bytes"] < 4 * bytes < revisions * bytes / 4


@pytest.mark.campaign
def test_more_than_the_portion_holds_is_refused_and_harms_nothing(job):
    """Roll-over never takes the only complete revision: a write without room beside it is refused."""
    sized = "hint:mainstay_portion_bytes:1048576"
    said = job(sized, "open", "write:1:100000", "write:2:7000000", "read", "write:3:100000", "revision:1", "close")
    first, second, third = zip(*results(said, "write"))
    assert {status for status, _ in first + third} == {"OK"}
    for status, text in second:
        assert status == "PORTION_TOO_SMALL" and "this shard needs" in text and "mainstay grow" in text, text
    assert brought(said, "read") == [[(1, bytes, 1)] for bytes in sizes(100_000)]
    assert brought(said, "revision") == [[(1, bytes, 1)] for bytes in sizes(100_000)]
    # Without a setting for the size of portions, they grow.
    said = job("open", "write:1:100000", "write:2:7000000", "read", "close", space="larger")
    assert brought(said, "read") == [[(2, bytes, 2)] for bytes in sizes(7_000_000)]


def test_what_one_rank_gives_wrong_is_told_on_all(job):
    said = job(
        "open:9000", "write:1:8000", "null_at:1", "huge_at:2", "read_at:2:9000", "mixed:1", "read", "null", "close"
    )
    for rank, each in enumerate(results(said, "null_at")):
        assert [status for status, _ in each] == ["INVALID_ARGUMENT"] * 2
        assert all("data" in text and "null" in text and ("on rank 1" in text) == (rank != 1) for _, text in each), each
    all_refused(said, "huge_at", "INVALID_ARGUMENT", "more than any memory has")
    # Rank 2 wrote 8000 + 2 * 777.
    all_refused(said, "read_at", "INVALID_ARGUMENT", "room for 9000 bytes", "saved 9554 in revision 1")
    all_refused(said, "mixed", "INVALID_ARGUMENT", "rank 1 asks for 2 and rank 0 for 1")
    assert brought(said, "read") == [[(1, bytes, 1)] for bytes in sizes(8000)]
    for call in ("null:write", "null:close", "null:close:none", "null:bytes"):
        all_refused(said, call, "INVALID_ARGUMENT", "null" if call != "null:bytes" else "bytes")


@pytest.mark.campaign
def test_a_handle_without_a_place_is_refused_on_all(job):
    all_refused(job("open_at_1"), "open", "INVALID_ARGUMENT", "session", "null")


@pytest.mark.campaign
def test_a_count_that_is_none_and_hints_out_of_range_are_refused_by_name(job):
    all_refused(job("open:0xffffffffffffffff"), "open", "INVALID_ARGUMENT", "shard_bytes", "1 PiB")
    all_refused(job("hint:mainstay_keep:0", "open"), "open", "INVALID_ARGUMENT", "hint mainstay_keep: ", "1 to 1000")
    all_refused(
        job("hint:striping_factor:70000", "open"), "open", "INVALID_ARGUMENT", "hint striping_factor: ", "65536"
    )
    all_refused(job("hint:striping_unit:1000", "open"), "open", "INVALID_ARGUMENT", "hint striping_unit: ", "64 KiB")
    all_refused(
        job("hint:mainstay_kep:2", "open"), "open", "INVALID_ARGUMENT", "hint mainstay_kep: ", "did you mean keep?"
    )
    # Text after a line break is no hint.
    broken = ["hint:no_such:x\nmainstay_keep=0", "hint:no\nmainstay_keep=0:x"]
    said = job(
        "hint:striping_factor:4",
        "hint:striping_unit:65536",
        "hint:cb_nodes:4",
        "hint:no_such:x=y",
        *broken,
        "hint:mainstay_keep:2",
        "open",
        "write:1:10",
        "read",
        "close",
    )
    assert brought(said, "read") == [[(1, bytes, 1)] for bytes in sizes(10)]


def test_another_number_of_ranks_is_told_both(job):
    job("open", "write:1:1000", "close")
    said = job("open", "read", "size", "close", ranks=2)
    all_refused(said, "read", "RANK_COUNT", "3 ranks", "has 2", "mainstay_reader_open")
    all_refused(said, "size", "RANK_COUNT", "3 ranks", "has 2")


@pytest.mark.campaign
def test_a_space_that_was_saved_in_another_way_says_what_it_has(job, scratch, mpi):
    code = "import mainstay; s = mainstay.open('other'); s.put('field', b'x'); s.close()"
    subprocess.run([mpi.command("python"), "-c", code], cwd=scratch, check=True, timeout=LIMIT_S)
    all_refused(job("open", "read", "close", ranks=1, space="other"), "read", "REGION_MISSING", '"buffer"', "field")


def test_a_damaged_revision_is_passed_over_on_all_ranks(job, scratch):
    """The revision that was read in its place stays when the next one is written."""
    from layout import Layout

    # Room for two: the next write overwrites one of them.
    job("hint:mainstay_portion_bytes:1048576", "open", "write:1:400000", "write:2:400000", "close")
    damaged = Layout(scratch / "space")
    damaged.flip(damaged.data(1, 2))
    damaged.write()
    said = job("open", "revision:2", "read", "write:3:400000", "revision:1", "close")
    first, second = zip(*results(said, "revision"))
    assert {status for status, _ in first} == {"DAMAGED"}, first
    assert brought(said, "read") == [[(1, bytes, 1)] for bytes in sizes(400_000)]
    assert [READ.match(text).groups() for _, text in second] == [("1", str(bytes), "1") for bytes in sizes(400_000)]


@pytest.mark.campaign
def test_after_any_kill_the_last_valid_revision_is_read_bit_for_bit(program, mpi, scratch, monkeypatch):
    """A rank is killed somewhere in a write, again and again, in a space with room for three buffers of each rank."""
    monkeypatch.setenv("OMPI_MCA_btl_sm_backing_directory", str(scratch))
    dice = random.Random(7)
    durable = 0
    for _ in range(KILLS):
        # Seeds that no run before can have reached.
        first = durable + 10
        last = f"= 0 go_on OK wrote {first + dice.randint(1, 4)}"
        command = [program, scratch / "space", "open:400000", "read", f"go_on:300000:{first}"]
        with Job(RANKS, command, scratch, LIMIT_S, mpi=mpi) as job:
            for line in job.lines():
                assert "WRONG" not in line, line
                if line.strip() == last:
                    job.kill_rank(dice.randrange(RANKS))
            assert job.wait() != 0, job.tail()
        came_back(job.output, durable)
        durable = max(int(seed) for seed in re.findall(r"= 0 go_on OK wrote (\d+)", "\n".join(job.output)))
    status, output = run(RANKS, [program, scratch / "space", "open", "read", "close"], scratch, mpi=mpi)
    assert status == 0 and "WRONG" not in output, output
    came_back(output.splitlines(), durable)


def came_back(output, durable):
    """Every rank read the same revision: the last one that was reported written, or a later one."""
    found = [READ.match(text).groups() for _, call, _, text in SAID.findall("\n".join(output)) if call == "read"]
    seeds = {int(seed) for _, _, seed in found}
    assert len(found) == RANKS and len({revision for revision, _, _ in found}) == len(seeds) == 1, found
    assert sorted(int(bytes) for _, bytes, _ in found) == ([0] * RANKS if durable == 0 else sizes(300_000)), found
    assert seeds <= {durable, durable + 1}, f"{durable} was durable, and {seeds} came back"


@pytest.mark.parametrize("standard", ["c++11", *rarely("c++20")])
def test_the_header_works_in_cxx(scratch, standard):
    import library

    program = place(OPENMPI, f"pfs-{standard}")
    library.build(program, [SOURCES / "pfs.c"], "-O1", mpi=OPENMPI, compiler="mpicxx", standard=standard)
    status, output = run(RANKS, [program, scratch / "space", "open", "write:1:1000", "read", "close"], scratch)
    assert status == 0 and len(re.findall(r"read OK revision 1 ", output)) == RANKS, output
