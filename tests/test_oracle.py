"""Traces of real jobs: recorded by `mainstay trace`, read by `mainstay oracle`, replayed in a second run; and a trace
that is larger than the memory for reading it."""

import os
import re
import resource
import struct
import subprocess

import library
import pytest
from command import MAINSTAY, mainstay
from jobs import run
from limits import LIMIT_S
from mpi import MPICH, OPENMPI, ROOT
from programs import PYTHON
from test_early import DONE, NO_PAGES
from ways import rarely

TICK, MARK = 0x544B0000, 0x544B0001
INCREMENTAL = {"MAINSTAY_CAPTURE": "incremental", "MAINSTAY_STAGGER": "off"}
needs_pages = pytest.mark.skipif(NO_PAGES, reason="this system does not tell which pages were written")


def recorded(words, folder, scratch, mpi):
    """A job of two ranks that `mainstay trace` records in the folder."""
    command = [MAINSTAY, "trace", "--out", folder, "--", *mpi.mpiexec(2, words)]
    done = subprocess.run(command, env=mpi.environment(scratch), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def told(trace, predictor, *words):
    [one] = mainstay("oracle", trace, "--iterations", 1, "--learn", 1, *words)["traces"]
    return next(of for of in one["predictors"] if of["predictor"] == predictor)


@needs_pages
@pytest.mark.parametrize("mpi", [OPENMPI, MPICH], ids=str)
@pytest.mark.parametrize("language", ["C", *rarely("Python")])
def test_a_recorded_job_tells_what_the_next_one_saves_early(scratch, monkeypatch, tmp_path, mpi, language):
    if language == "C":
        library.build(tmp_path / "memwrite", [ROOT / "examples" / "memwrite" / "memwrite.c"], "-O2", mpi=mpi)
        program = [tmp_path / "memwrite"]
        after = ["--mb", 16, "--rounds", 2, "--checkpoints", 8, "--seconds", 2]
    else:
        program, after = [mpi.command("python"), PYTHON / "settles.py"], [240, "oracle"]
    traces = tmp_path / "traces"
    recorded([*program, scratch / "recorded", *after], traces, scratch, mpi)
    assert {path.name for path in traces.iterdir()} == {
        f"rank-{r}.{end}" for r in (0, 1) for end in ("trace", "regions")
    }

    expected = [told(traces / f"rank-{rank}.trace", "oracle", "--bandwidth", "100GB") for rank in (0, 1)]
    assert all(one["early_pages"] > 0 and one["wasted_pages"] == 0 for one in expected), expected

    for name, value in {**INCREMENTAL, "MAINSTAY_PREDICTOR": "oracle", "MAINSTAY_ORACLE": traces}.items():
        monkeypatch.setenv(name, str(value))
    status, output = run(2, [*program, scratch / "replayed", *after], scratch, mpi=mpi)
    assert status == 0, output
    early, dirty = map(int, DONE.search(output).groups())
    assert early > 0 and re.search(r"\b0 in vain", output), output
    if language == "C":
        # The first checkpoint saves everything; with a writer as fast as this nothing else keeps the two apart.
        assert early / dirty == pytest.approx(expected[0]["early_share"], abs=0.1), (output, expected)


@pytest.mark.parametrize("share", [0.25, *rarely(0.1)])
@pytest.mark.parametrize("iterations", [5, *rarely(20)])
@pytest.mark.parametrize("cut", [[], *rarely(["--inside"])], ids=["whole", "cut"])
def test_auto_comes_near_the_oracle_in_a_long_recorded_program(iterations, cut, share):
    """The smaller ones are replayed in the engine's tests."""
    trace = ROOT / "cli" / "tests" / "traces" / "bt.A.long.bin"
    [one] = mainstay("oracle", trace, "--iterations", iterations, "--share", share, *cut)["traces"]
    auto, perfect = (next(of for of in one["predictors"] if of["predictor"] == name) for name in ("auto", "oracle"))
    assert auto["early_share"] >= 0.9 * perfect["early_share"] > 0 and auto["wasted_share"] <= 0.2, (auto, perfect)


@pytest.mark.campaign
def test_a_trace_larger_than_the_memory_for_it_is_read_as_it_comes(tmp_path):
    """256 MB of records, read with 96 MB of address space."""
    pages, ticks, iterations = 4000, 4, 1000
    stretches = b"".join(struct.pack("<QQ", (1 << 30) + 2 * page, 1) for page in range(pages))
    path, at = tmp_path / "large.trace", 7
    with path.open("wb") as file:
        file.write(struct.pack("<QQQQ", MARK, at, 0, 0))
        for step in range(ticks * iterations):
            at += 1000
            kind = MARK if step % ticks == ticks - 1 else TICK
            file.write(struct.pack("<QQQQ", kind, at, 0, pages) + stretches)
    assert path.stat().st_size > 255_000_000
    limit = 96 << 20
    words = [MAINSTAY, "oracle", path, "--json", "--iterations", "5"]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    path.unlink()
    assert done.returncode == 0, done.stderr
    assert f'"dirty_pages":{pages * (iterations // 5 - 2)}' in re.sub(r"\s", "", done.stdout), done.stdout
