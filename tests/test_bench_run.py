"""The benchmark `run` writes its documented rows. How fast anything is, is not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "bench"))

from harness import confidence  # noqa: E402

pytestmark = pytest.mark.campaign  # its rows take long

INSIDE = {f"in_{call}" for call in ("open", "restore", "due", "checkpoint", "close", "other")}
METRICS = {
    "run_none",
    "run",
    "overhead",
    "overhead_low",
    "overhead_high",
    "in_mainstay",
    "in_mainstay_allowed",
} | INSIDE


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """The rows by case and metric."""
    out = tmp_path_factory.mktemp("run")
    small = ["--part", "64", "--rounds", "2", "--seconds", "0.2", "--sides", "pool, 64", "--out", out]
    subprocess.run([sys.executable, ROOT / "bench" / "run.py", *small], check=True, timeout=LIMIT_S)
    assert sorted(path.name for path in out.iterdir()) == ["run.json"], "the spaces are gone"
    cases = {}
    for row in json.loads((out / "run.json").read_text()):
        assert cases.setdefault(row["case"], {}).setdefault(row["metric"], row) is row, "no row twice"
    return cases


def test_each_program_has_all_rows_and_only_the_target_that_was_asked_for(cases):
    assert [(case.partition(",")[0], case.rpartition("MB, ")[2]) for case in cases] == [
        ("jacobi3d", "pool, 64 MiB"),
        ("adi", "pool, 64 MiB"),
    ]
    for rows in cases.values():
        assert set(rows) == METRICS
        assert [metric for metric, row in rows.items() if row["target"] is not None] == ["in_mainstay"]
        assert rows["in_mainstay"]["holds"] == (rows["in_mainstay"]["value"] <= 1)


def test_the_time_in_mainstay_is_that_of_the_calls(cases):
    for rows in cases.values():
        of = {metric: row["value"] for metric, row in rows.items()}
        assert all(of[call] > 0 for call in INSIDE), "each call is clocked"
        # Medians of sums of different ranks: no more than the sum of the largest, no less than any.
        assert max(of[call] for call in INSIDE) <= of["in_mainstay"] < 100
        assert of["overhead_low"] <= of["overhead"] <= of["overhead_high"]
        assert rows["run"]["ratio"] == pytest.approx(of["run"] / of["run_none"])


@pytest.mark.parametrize(
    ("values", "half"),
    [([1, 2], 12.706 * 0.5), ([3, 3, 3], 0), ([2, 4, 4, 4, 5, 5, 7, 9], 2.365 * (32 / 7 / 8) ** 0.5)],
)
def test_the_confidence_interval_is_that_of_student(values, half):
    mean = sum(values) / len(values)
    assert confidence.interval(values) == pytest.approx((mean - half, mean, mean + half))
