"""`mainstay report`: the page opens in a browser without a network, shows the events, and has no errors."""

import json
import re
import subprocess
import sys

import pytest
from browser import browser  # noqa: F401
from command import MAINSTAY
from limits import LIMIT_S

pytestmark = pytest.mark.campaign  # it takes a browser

JOB = """
import sys
import mainstay
with mainstay.open(sys.argv[1]) as session:
    state = bytearray(100_000)
    session.protect("state", state)
    session.restore()
    for step in range(1, 7):
        session.due(10 * step)
        state[step] = step
        session.checkpoint()
        session.wait()
"""
# Saves once and is killed.
KILLED = """
import os, signal, sys
import mainstay
session = mainstay.open(sys.argv[1])
session.protect("state", bytearray(8))
session.restore()
session.due(7)
session.checkpoint()
session.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def space(tmp_path, monkeypatch):
    """The space of two jobs. The first was killed after it had gone on without a rank; an image has a name of its
    own."""
    folder = tmp_path / "<img src=http:x onerror=alert(1)>"
    for name, value in {"MEMORY": str(tmp_path / "memory"), "PFS_EVERY": "3"}.items():
        monkeypatch.setenv(f"MAINSTAY_{name}", value)
    for _ in range(2):
        subprocess.run([sys.executable, "-c", JOB, folder], check=True, timeout=LIMIT_S)
    journal = folder / "journal"
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    closed = next(at for at, entry in enumerate(entries) if entry["event"] == "closed")
    noticed = entries[closed]["unix_ns"]
    parts = {"regroup_ns": 50_000_000, "open_ns": 30_000_000, "copies_ns": 10_000_000, "state_ns": 20_000_000}
    entries[closed] = {
        "unix_ns": noticed, "event": "recovered", "noticed_unix_ns": noticed, "failed": [2], "way": "spare",
        "ranks_before": 4, "ranks": 4, "parts": parts, "total_ns": 120_000_000,
        "back_to": {"lineage": 1, "revision": 5, "saved_unix_ns": None}, "lineage": 1, "step": 63,
        "lost": ["<b>of a space</b>"],
    }  # fmt: skip
    journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder


def test_the_page_shows_what_happened(space, browser, tmp_path):
    page = tmp_path / "run.html"
    subprocess.run([MAINSTAY, "report", space, "-o", page], check=True, timeout=LIMIT_S)
    document = browser(page, "--dump-dom", f"--screenshot={tmp_path / 'page.png'}", "--window-size=1160,1800")
    for level, count in ("memory", 12), ("space", 4):
        assert len(re.findall(f'class="checkpoint" data-level="{level}"', document)) == count, document
    assert document.count('class="recovery"') == 1 and 'class="died failure"' in document
    # Revision 5 was saved at step 50, and the rank failed at 63.
    assert "rank 2 failed; replaced by a spare" in document and '<td class="number">13</td>' in document
    assert document.count("<table") >= 3 and "<img" not in document and "<b>of a space" not in document


def test_starts_that_were_killed_are_told_as_what_they_were(tmp_path):
    """Five starts were reported as one that had ended in order."""
    space = tmp_path / "space"
    job = [sys.executable, "-c", KILLED, space]
    ran = subprocess.run(
        [MAINSTAY, "run", "--restarts", "1", "--", *job], capture_output=True, text=True, timeout=LIMIT_S
    )
    page = subprocess.run([MAINSTAY, "report", space], capture_output=True, text=True, timeout=LIMIT_S).stdout
    assert page.count("did not end in order: killed by SIGKILL") == 2, ran.stderr + page
    assert "The last job did not end in order" in page and "0 ms" not in page, page
    stands = subprocess.run([MAINSTAY, "status", space], capture_output=True, text=True, timeout=LIMIT_S).stdout
    assert re.fullmatch(
        r"space   \S+: not ended in order: it died or was stopped\nsaved   revision 2, step 7, .* ago; older: 1\n",
        stands,
    )
