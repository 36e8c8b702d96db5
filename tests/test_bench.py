"""The benchmarks run and write the rows that they promise. How fast anything is, is not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FIELDS = {"case", "metric", "value", "unit", "reference", "ratio", "spread", "target", "holds"}
LIMIT_S = 120
# Each says something that a user asked for: how long the program waits, until when data is at risk,
# how long a restart takes, how much memory it costs.
TARGETS = {"perceived", "durable", "restart", "memory", "memory_restart"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    command = [sys.executable, ROOT / "bench" / "path.py", "--part", "64", "--rounds", "2", "--only", "4 x", "--out", out]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    assert [path.name for path in out.iterdir()] == ["path.json"], "the spaces are gone"
    return json.loads((out / "path.json").read_text())


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


def test_what_was_asked_for_has_a_target(rows):
    targets = {}
    for row in rows:
        if row["target"] is not None:
            targets.setdefault(row["case"], set()).add(row["metric"])
    assert targets == {
        "4 x 4 MiB, large pool": TARGETS,
        "4 x 4 MiB, pool 1 MiB": TARGETS - {"perceived"},
        "4 x 4 MiB, direct": {"memory", "memory_restart"},
        "4 x 4 MiB, Python": {"perceived_python", "durable_python"},
    }


def test_a_restart_is_cold(rows):
    reads = [row for row in rows if row["metric"] == "restart_device_reads"]
    assert len(reads) == 3
    for row in reads:
        assert row["ratio"] >= 1, "bytes came from the page cache"
