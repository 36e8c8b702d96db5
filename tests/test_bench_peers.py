"""`make peers` writes its documented rows and its table. How fast anything is, is not tested."""

import json
import subprocess
import sys

import pytest
from limits import LIMIT_S
from mpi import ROOT

pytestmark = pytest.mark.campaign  # it takes PyTorch, and its rows take long

SIDES = ("Mainstay", "np.save", "dcp.save")
ENVIRONMENT_LIMIT_S = 1800  # 5 GB of packages


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder with the results."""
    made = subprocess.run(
        ["make", "--no-print-directory", "environment-peers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=ENVIRONMENT_LIMIT_S,
    )
    if made.returncode != 0:
        pytest.skip(f"the other savers cannot be had here: {made.stderr}")
    folder = tmp_path_factory.mktemp("peers")
    small = ["--mib", "64", "--rounds", "1", "--restarts", "1", "--kills", "1", "--only", *SIDES, "--out", folder]
    subprocess.run([sys.executable, ROOT / "bench" / "peers.py", *small], check=True, timeout=3 * LIMIT_S)
    assert sorted(path.name for path in folder.iterdir()) == ["peers.json", "peers.md"], "the checkpoints are gone"
    return folder


def test_each_saver_is_beside_the_same_floors(out):
    rows = json.loads((out / "peers.json").read_text())
    values = {(row["case"], row["metric"]): row["value"] for row in rows}
    assert len(values) == len(rows), "no row twice"
    for row in rows:
        assert row["ratio"] == pytest.approx(row["value"] / values[row["case"], row["reference"]])
    for case in ("1 x 64 MiB", "2 x 32 MiB"):
        against = {row["metric"]: row["reference"] for row in rows if row["case"] == case}
        for side in SIDES:
            assert against[f"{side}: waits"] == "copy"
            assert against[f"{side}: done"] == against[f"{side}: durable"] == "raw_write"
            assert against[f"{side}: restart"] == "Mainstay: restart"
            assert values[case, f"{side}: device_reads"] >= values[case, "data"], "bytes came from the page cache"


def test_the_table_tells_the_failures_that_each_saver_survives(out):
    lines = [line.strip("|").split("|") for line in (out / "peers.md").read_text().splitlines() if line[:1] == "|"]
    found = {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}
    killed, flipped, across = (
        {side: found[side][column].partition(" (")[0] for side in SIDES} for column in (-3, -2, -1)
    )
    # Mainstay may complete the new checkpoint from memory.
    assert killed.pop("Mainstay").startswith("stays")
    assert killed == {"np.save": "lost", "dcp.save": "lost"}
    assert flipped.pop("Mainstay").startswith("found")
    assert flipped == {"np.save": "loads without an error", "dcp.save": "loads without an error"}
    assert across == {"Mainstay": "yes", "np.save": "no", "dcp.save": "yes"}
    assert found["CRIU"][1] != "", "measured, or why not"
