"""Pages that are saved before the checkpoint, in real jobs: killed during the early save, and restarted."""

import os
import random
import re
import time

import library
import pytest
from command import mainstay
from job import Job
from jobs import run
from limits import LIMIT_S
from mpi import MPICH, OPENMPI, ROOT
from programs import PYTHON
from ways import rarely

MEMWRITE = ("--mb", 16, "--rounds", 8, "--checkpoints", 32, "--ticks", 3)
SETTINGS = {"MAINSTAY_CAPTURE": "incremental", "MAINSTAY_STAGGER": "off", "MAINSTAY_TICK_SECONDS": "0.002"}
DONE = re.compile(r"^done: .*?(\d+) of (\d+)", re.M)
SAVED = re.compile(r"^(checkpoint|saved step) \d+", re.M)
MPIS = pytest.mark.parametrize("mpi", [OPENMPI, MPICH], ids=str)
NO_PAGES = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 7)


@pytest.fixture(scope="module")
def memwrite(tmp_path_factory):
    """The program for an MPI, built when it is first asked for."""
    built = {}

    def program(mpi):
        if mpi not in built:
            built[mpi] = tmp_path_factory.mktemp("memwrite") / "memwrite"
            library.build(built[mpi], [ROOT / "examples" / "memwrite" / "memwrite.c"], "-O2", mpi=mpi)
        return built[mpi]

    return program


def good(ranks, words, scratch, mpi):
    status, output = run(ranks, words, scratch, mpi=mpi)
    assert status == 0, output
    return output


def killed(ranks, words, scratch, mpi, after):
    """Kills a rank some moments after so many checkpoints, when pages are on their way."""
    seen = 0
    with Job(ranks, words, scratch, LIMIT_S, mpi) as job:
        for line in job.lines():
            seen += bool(SAVED.match(line))
            if seen == after:
                time.sleep(random.uniform(0, 0.01))
                job.kill_rank(ranks - 1)
                seen += 1
        job.wait()
    # Under load the kill before may have come when all was done, and nothing was left to save.
    assert seen > after or (seen == 0 and DONE.search(job.tail())), job.tail()


def kills(words, scratch, mpi, count, ranks=2, last=None):
    """`last`: the words of the run that is not killed, if it is to be longer."""
    for _ in range(count):
        killed(ranks, words, scratch, mpi, random.randint(1, 3))
    output = good(ranks, last or words, scratch, mpi)
    early, dirty = map(int, DONE.search(output).groups())
    assert "restored" in output, output
    assert NO_PAGES or early > 0, output


@pytest.mark.campaign
@MPIS
def test_killed_while_pages_are_saved_early_it_goes_on_from_the_last_revision(memwrite, scratch, monkeypatch, mpi):
    for name, value in {**SETTINGS, "MAINSTAY_PREDICTOR": "infrequent"}.items():
        monkeypatch.setenv(name, value)
    kills([memwrite(mpi), scratch / "space", *MEMWRITE, "--seconds", 3], scratch, mpi, 2)


@pytest.mark.campaign
@MPIS
def test_so_does_a_program_in_python_that_says_what_is_settled(scratch, mpi):
    words = [mpi.command("python"), PYTHON / "settles.py", scratch / "space"]
    # However late the kills come, the last run has as many intervals to itself.
    kills([*words, 60], scratch, mpi, 2, last=[*words, 120])


@pytest.mark.campaign
@MPIS
@pytest.mark.parametrize("predictor", ["auto", "infrequent", "idle", "phase", "count"])
def test_many_kills_with_each_predictor(memwrite, scratch, monkeypatch, mpi, predictor):
    for name, value in {**SETTINGS, "MAINSTAY_PREDICTOR": predictor}.items():
        monkeypatch.setenv(name, value)
    words = [memwrite(mpi), scratch / "space", *MEMWRITE, "--seconds", 3]
    for _ in range(20):
        killed(2, words, scratch, mpi, 1)
    good(2, words, scratch, mpi)


@pytest.mark.parametrize("ranks", [1, *rarely(4)])
def test_a_scan_is_saved_early_and_wastes_nothing(memwrite, scratch, monkeypatch, ranks):
    """Figure 6: memory that a linear scan has written is not written again for two intervals."""
    for name, value in {**SETTINGS, "MAINSTAY_TICK_SECONDS": "0", "MAINSTAY_PREDICTOR": "infrequent"}.items():
        monkeypatch.setenv(name, value)
    words = [memwrite(OPENMPI), scratch / "space", "--mb", 16, "--rounds", 2, "--checkpoints", 8, "--seconds", 2]
    output = good(ranks, words, scratch, OPENMPI)
    assert output.rstrip().endswith("0 in vain"), output
    early, dirty = map(int, DONE.search(output).groups())
    assert NO_PAGES or early > dirty / 8, output
    shards = mainstay("show", scratch / "space")["revision"]["shard_list"]
    told = [shard["saved_early"] for shard in shards]
    assert NO_PAGES or all(0 < one["dirty_bytes"] and one["in_vain_bytes"] == 0 and one["off"] == "" for one in told), (
        told
    )
