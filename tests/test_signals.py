"""Signals in every phase: system calls end early all the time, and no data is lost or wrong."""

import pytest
from job import Job
from test_kills import CALLS, IO, LIMIT_S, Board, folder, victim_in_c  # noqa: F401
from ways import rarely

RANKS, STEPS, RUNS = 2, 12, 2


@pytest.mark.parametrize("stage", ["pool", *rarely("direct")])
def test_signals_in_every_phase_do_no_harm(folder, mpi, stage, monkeypatch):  # noqa: F811
    monkeypatch.setenv("VICTIM_SIGNALS", "1")
    board, hit = Board(folder / "board"), set()
    for run in range(1, RUNS + 1):
        command = [*victim_in_c(mpi), folder / "space", folder / "board", folder / "acknowledged", run, 1, stage, STEPS]
        with Job(RANKS, command, folder, LIMIT_S, mpi) as job:
            output = list(job.lines())
            assert job.wait() == 0 and "done" in output, output
        # It has verified its restored state.
        came_back = [line for line in output if line.startswith("restored")]
        assert came_back == [f"restored {STEPS * (run - 1)} of run {run - 1} step {STEPS * (run - 1)}"], output
        hit |= {phase for rank in range(RANKS) for phase in board.signalled(rank)}
    # Without a pool nothing is left to settle: no time passes in which a signal could come.
    missed = {*CALLS, *IO} - hit
    assert missed <= ({"settling the last"} if stage == "direct" else set()), missed
