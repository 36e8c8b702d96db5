"""The benchmarks run and write their documented rows. How fast anything is, is not tested."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

ROOT = Path(__file__).resolve().parents[1]
FIELDS = {"case", "metric", "value", "unit", "reference", "ratio", "spread", "target", "holds"}
# Each answers a question of users: how long the program waits, until when data is at risk, how long a restart takes,
# and how much memory it costs.
TARGETS = {"perceived", "durable", "restart", "memory", "memory_restart"}
PLOTS = {"pages": {"pages.svg"}}

# From this kernel on, written pages are reported.
NO_PAGES = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 7)

sys.path.insert(0, str(ROOT / "bench"))

from levels.results import WAYS  # noqa: E402
from space import results  # noqa: E402
from speculation.results import PREDICTORS  # noqa: E402
from staging import mix  # noqa: E402

pytestmark = pytest.mark.campaign  # its rows take long


def measure(folder, name, *options):
    """Runs a benchmark, small, and returns its rows. Only its own files are left in `folder`."""
    command = [sys.executable, ROOT / "bench" / f"{name}.py", *options, "--out", folder]
    subprocess.run(command, check=True, timeout=LIMIT_S, env={**os.environ, "QUICK": "1"})
    made = {path.name for path in folder.iterdir()}
    assert made == {f"{name}.json", *PLOTS.get(name, ())}, "the spaces are gone"
    return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def path_rows(tmp_path_factory):
    return measure(tmp_path_factory.mktemp("bench"), "path", "--part", "64", "--rounds", "2", "--only", "4 x")


@pytest.fixture(scope="module")
def staging_rows(tmp_path_factory):
    cases = ("stages", "pools", "restart", "memory")
    return measure(tmp_path_factory.mktemp("bench"), "staging", "--ranks", "2", "--rounds", "1", "--only", *cases)


@pytest.fixture(scope="module")
def space_rows(tmp_path_factory):
    """Without a CephFS."""
    return measure(tmp_path_factory.mktemp("bench"), "space", "--servers", "--processes", "4", "--mb", "1")


@pytest.fixture(scope="module")
def across_rows(tmp_path_factory):
    return measure(tmp_path_factory.mktemp("bench"), "across", "--part", "2", "--rounds", "1")


@pytest.fixture(scope="module")
def ranks_rows(tmp_path_factory):
    small = ("--rounds", "1", "--batches", "3", "--steps", "10", "--mib", "1", "--stay", "4", "--back", "1")
    losing = ("--processes", "3", "--lost", "1", "--work", "20")
    return measure(tmp_path_factory.mktemp("bench"), "ranks", *small, *losing)


@pytest.fixture(scope="module")
def opening_rows(tmp_path_factory):
    small = ("--ranks", "1", "3", "--items", "1", "10", "--keep", "1", "2", "--rounds", "1")
    return measure(tmp_path_factory.mktemp("bench"), "opening", *small)


@pytest.fixture(scope="module")
def levels_rows(tmp_path_factory):
    cases = ("4 x 0 MiB, 2 nodes, b", "memory", "left", "size")
    small = ("--part", "512", "--rounds", "1", "--sizes", "512", "--only", *cases)
    return measure(tmp_path_factory.mktemp("bench"), "levels", *small)


@pytest.fixture(scope="module")
def recovery_rows(tmp_path_factory):
    small = ("--side", "16", "--lost", "1", "--only", "fail")
    return [row for row in measure(tmp_path_factory.mktemp("bench"), "recovery", *small) if row["reference"]]


@pytest.fixture(scope="module")
def pages_rows(tmp_path_factory):
    small = ("--mib", "4", "--rounds", "1", "--only", "%", "restart", "snapshot", "constant")
    return measure(tmp_path_factory.mktemp("bench"), "pages", *small)


@pytest.fixture(scope="module")
def speculation_rows(tmp_path_factory):
    small = ("--speed", "512", "--side", "16", "--ways", "full")
    return measure(tmp_path_factory.mktemp("bench"), "speculation", *small)


@pytest.fixture(
    params=("path", "staging", "space", "across", "ranks", "opening", "levels", "recovery", "pages", "speculation")
)
def rows(request):
    return request.getfixturevalue(f"{request.param}_rows")


def test_each_row_has_the_fields_and_tells_the_truth(rows):
    values = {(row["case"], row["metric"]): row["value"] for row in rows}
    assert len(values) == len(rows), "no row twice"
    for row in rows:
        assert set(row) == FIELDS
        assert row["value"] >= 0
        assert row["ratio"] == pytest.approx(row["value"] / values[row["case"], row["reference"]])
        low, high = row["spread"]
        assert 0 <= low <= high
        assert row["holds"] == (None if row["target"] is None else row["ratio"] <= row["target"])


def targets(rows):
    """The metrics with a target, by case."""
    found = {}
    for row in rows:
        if row["target"] is not None:
            found.setdefault(row["case"], set()).add(row["metric"])
    return found


def test_what_was_asked_of_the_path_has_a_target(path_rows):
    assert targets(path_rows) == {
        "4 x 4 MiB, large pool": TARGETS,
        "4 x 4 MiB, default settings": TARGETS,
        "4 x 4 MiB, pool 1 MiB": TARGETS - {"perceived"},
        "4 x 4 MiB, direct": {"memory", "memory_restart"},
        # These are so small that their times have no target.
        "4 x 4 KiB, default settings": {"memory", "memory_restart", "perceived_to_all_reduce"},
        "4 x 4 KiB, direct": {"memory", "memory_restart"},
        "4 x 4 MiB, at once": {"perceived"},
        "4 x 4 MiB, Python": {"perceived_python", "durable_python"},
    }


def test_what_was_asked_of_the_stages_has_a_target(staging_rows):
    assert targets(staging_rows) == {
        "LU, stages": {"pool", "pool_to_unsynced"},
        # Pools of 16, 64 and 256 MiB: the latter hold the data of two ranks with 23 MiB each.
        "LU, pools": {"pool_64_to_allowed", "pool_256_to_allowed"},
        "LU, memory": {"direct", "pool", "node_64", "node_auto", "rank_64", "rank_auto"},
    }
    published = {row["target"] for row in staging_rows if row["case"] == "LU, stages" and row["target"]}
    assert published == {1 / 2.23}


def test_what_was_asked_of_a_space_has_a_target(space_rows):
    asked = {f"{way}{to}" for way in ("delegated_node", "delegated_direct") for to in ("", "_to_slower")}
    assert targets(space_rows) == {"local, 4 x 1 MB": asked}


def test_every_way_to_save_is_measured(space_rows):
    found = {row["metric"] for row in space_rows}
    here = [way for way in results.WAYS if not results.is_lazy(way)]
    assert found >= set(here) | {f"{way}_perceived" for way in here if way in results.DELEGATED}


def test_a_restore_on_other_ranks_is_beside_a_raw_read_and_one_on_as_many(across_rows):
    against = {row["metric"]: row["reference"] for row in across_rows if row["metric"] != row["reference"]}
    assert against == {
        **{f"restore on {ranks} ranks": f"raw read, {ranks} ranks" for ranks in (4, 2, 6)},
        "2 ranks beside 4": "restore on 4 ranks",
        "6 ranks beside 4": "restore on 4 ranks",
    }


def test_what_was_asked_of_ranks_in_slots_has_a_target(ranks_rows):
    computing = {"one_rank", "four_ranks", "one_rank_of_2"}
    sizes, mpis = ("8 B", "256 KiB"), ("openmpi", "mpich")
    assert targets(ranks_rows) == {
        **{call: {"slots"} for call in ("gate", "wtime", "clock_gettime")},
        **{f"within a process, {size}": {"slots"} for size in sizes},
        **{f"between processes, {size}, {mpi}": {"slots"} for size in sizes for mpi in mpis},
        **{f"computing, {mpi}": computing for mpi in mpis},
        "2 x 1 MiB, whole": {"perceived", "durable"},
        "2 x 1 MiB, incremental, 10 % changed": {"perceived", "durable"},
        "1 x 4 MiB, of which 1 % changes": {"second"},
        "restart of 2 x 1 MiB": {"restart"},
        "memory of a rank beyond its data": {"dirty"},
        "1 of 3 processes are lost": {"seconds"},
    }


def test_what_was_asked_of_copies_has_a_target(levels_rows):
    large = "4 x 0 MiB, 2 nodes"
    assert targets(levels_rows) == {
        f"{large}, background": {"perceived", "slowdown"},
        f"{large}, blocking": {"perceived"},
        **{f"{large}, memory{fed}": {"beside"} for fed in ("", ", fed on", ", fed on twice")},
        f"{large}, restart, left": {"restart"},
    }
    sizes = {row["metric"] for row in levels_rows if row["case"].startswith("size")}
    # The slow ways are left out if the machine cannot run them.
    assert sizes >= {"memory"} and sizes <= {f"{way}{part}" for way in WAYS for part in ("", "_floor", "_perceived")}


def test_what_was_asked_of_a_recovery_has_a_target(recovery_rows):
    assert targets(recovery_rows) == {
        "a rank of 4 fails": {"spare", "shrunk", "spawned", "stopped"},
        "none of 4 ranks fails": {"in_mainstay"},
    }
    (calm, disturbed) = (row["value"] for row in recovery_rows if row["metric"] in ("calm_steps", "executed_steps"))
    assert disturbed > calm, "steps are done again"


def test_what_was_asked_of_pages_has_a_target(pages_rows):
    written = "1 x 4 MiB, 1 % in stretches of 4 KiB"
    assert targets(pages_rows) == {
        f"{written}": {"pages_bookkeeping", "pages_first_write", "pages_bytes", "hashes_bytes"},
        f"{written}, 8 times": {"pages_stored", "pages_bookkeeping"},
        f"{written}, restart after 8": {
            f"{side}_after_8{of}" for side in ("pages", "hashes") for of in ("", "_to_reads")
        },
        "1 x 4 MiB, snapshot": {"snapshot_forced_to_clone", "huge_snapshot_forced", "huge_snapshot_forced_slowdown"},
    }
    bytes = {row["metric"]: row["value"] for row in pages_rows if row["case"] == "constant"}
    assert bytes["pages_bytes"] < bytes["whole_bytes"] / 4 and bytes["hashes_bytes"] < bytes["whole_bytes"] / 4


def test_what_was_asked_of_saving_early_has_a_target(speculation_rows):
    asked = {name for way in PREDICTORS for name in (way, f"{way}_points")}
    found = targets(speculation_rows)
    replays = {case: found.pop(case) for case in list(found) if case.startswith("replay of bt.W, ")}
    between = {f"{way}_between" for way in PREDICTORS}
    assert list(replays.values()) == 8 * [{"oracle", "auto_vain"}] and list(found.values()) == [asked, asked | between]
    assert all(row["holds"] is not False for row in speculation_rows if row["case"] in replays)
    rows = {(row["case"].partition(",")[0], row["metric"]): row for row in speculation_rows}
    for program in ("memwrite", "adi"):
        assert rows[program, "oracle_left"]["reference"] == "oracle_predicted"
        assert rows[program, "full"]["reference"] == "incremental"
    # Half of a scan is over at the tick half-way. The recording knows it, in another run, too.
    if not NO_PAGES:
        assert rows["memwrite", "oracle_predicted"]["value"] <= 60
        assert rows["memwrite", "oracle_blocks"]["value"] < 90


def test_what_opening_costs_is_beside_what_the_ranks_cost_and_what_they_are_given(opening_rows):
    assert targets(opening_rows) == {
        case: {"open", "restore"} for case in ("ranks, from 1 to 3", "items, from 1 to 10", "keep, from 1 to 2")
    }
    opened = [row for row in opening_rows if row["metric"] == "open" and row["unit"] == "s"]
    points = {row["case"] for row in opened if row["reference"] == "allreduces"}
    assert points == {f"ranks: {ranks} ranks, 1 items, keep 1" for ranks in (1, 3)} | {
        f"{series}: 4 ranks, {items} items, keep {keep}"
        for series, items, keep in (("items", 1, 1), ("items", 10, 1), ("keep", 1, 1), ("keep", 1, 2))
    }


def test_a_restart_is_cold(rows):
    reads = [row for row in rows if row["metric"].endswith("device_reads")]
    assert len(reads) in (
        0,
        3,
        6,
    )  # none are told of in space, across, ranks, opening and pages; cases of path, sides of staging
    for row in reads:
        assert row["ratio"] >= 1, "bytes came from the page cache"


@pytest.mark.parametrize("of, writes, mib", [(mix.LU, 975, 23), (mix.BT, 1057, 40)], ids=("LU", "BT"))
def test_the_pieces_are_those_that_were_published(of, writes, mib):
    """Paper 000, Table I and Figure 2."""
    sizes = mix.pieces(of)
    assert (len(sizes), sum(sizes)) == (writes, mib * 2**20)

    def shares(low, high):
        """In per cent of all writes and of all bytes."""
        chosen = [size for size in sizes if low <= size < high]
        return 100 * len(chosen) / writes, 100 * sum(chosen) / sum(sizes)

    tiny, medium, large = shares(0, 64), shares(4 * 2**10, 64 * 2**10), shares(512 * 2**10 + 1, 2**40)
    assert tiny[0] > 50 and tiny[1] < 0.5
    assert medium == (pytest.approx(37, abs=0.5), pytest.approx(12, abs=0.5))
    assert large == (pytest.approx(1, abs=0.1), pytest.approx(86, abs=0.5))
    assert shares(64, 4 * 2**10)[0] > 0 and shares(64 * 2**10, 512 * 2**10 + 1)[0] > 0


@pytest.mark.parametrize("of", mix.MIXES, ids=lambda of: of.name)
def test_the_pieces_are_not_in_order_of_size(of):
    sizes = mix.pieces(of)
    assert sizes == mix.pieces(of), "made once"
    quarters = [sizes[at * len(sizes) // 4 : (at + 1) * len(sizes) // 4] for at in range(4)]
    for quarter in quarters:
        assert sum(size < 64 for size in quarter) > len(quarter) / 3
        assert any(size > 512 * 2**10 for size in quarter)


def test_objects_tells_what_each_loss_costs(tmp_path):
    """The result has the bits of a run without a loss; otherwise there would be no rows."""
    rows = measure(tmp_path, "objects", "--lost", "0", "1")
    assert all(set(row) == FIELDS for row in rows)
    lost = {row["metric"]: row for row in rows if row["case"] == "1 of 5 ranks are lost"}
    assert set(lost) == {"seconds", "busiest", "restore", "regroup", "open", "copies", "state"}
    [plain] = [row for row in rows if row["case"].startswith("jacobi3d")]
    assert (plain["metric"], plain["reference"]) == ("objects", "plain") and plain["value"] > 0
    assert lost["seconds"]["reference"] == "explained" and lost["busiest"]["reference"] == "average"
    steps = [
        row for row in rows if row["case"] == "1 of 5 ranks are lost, each" and row["metric"].startswith("busiest")
    ]
    assert len(steps) > 36, "some were done again"
