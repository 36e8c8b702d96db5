"""Ranks that make different collective calls, and a session that outlives MPI, with each MPI: all ranks get
Mainstay's errors instead of errors of the MPI about truncated messages or an endless wait. In C; of C++ and Fortran,
that these errors and NOT_RESTORED reach the program by name. Rust and Python: the fault table."""

import re
import subprocess

import pytest
from jobs import run
from limits import LIMIT_S
from mpi import MPICH, OPENMPI
from programs import FORTRAN_SOURCES, build_faults, build_cxx, build_fortran

# MPICH may put lines of two ranks into one.
LINE = re.compile(r"= (\d+) (\w+) (\w+) ([^=\n]*)")


@pytest.fixture(params=[OPENMPI, MPICH], ids=str)
def calls(request, scratch):
    """Runs a job of three ranks that make calls; returns the statuses by rank and call."""
    program = build_faults(mpi=request.param)

    def run(*commands):
        job = request.param.mpiexec(3, [program, scratch / "space", *commands])
        done = subprocess.run(
            job, cwd=scratch, env=request.param.environment(scratch), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_S,
        )  # fmt: skip
        said = [(int(rank), *rest) for rank, *rest in LINE.findall(done.stdout)]
        assert done.returncode == 0 and sum(call == "end" for _, call, _, _ in said) == 3, done.stdout
        return said

    return run


def told(said, status):
    return sorted((rank, call) for rank, call, was, _ in said if was == status)


def test_an_intercommunicator(calls):
    """MPI ended the job in its own words."""
    said = calls("between", "open", "save:1", "close")
    assert told(said, "INVALID_ARGUMENT") == [(rank, "open") for rank in range(3)], said
    assert all("comm: an intercommunicator" in words for *_, was, words in said if was == "INVALID_ARGUMENT"), said


def test_ranks_that_make_different_calls(calls):
    pairs = [("save:2", "checkpoint", "wait"), ("wait", "wait", "restore"), ("restore", "restore", "save:3")]
    for first, name, second in pairs:
        said = calls(
            "open", "restore", "save:1", f"@0:{first}", f"@1:{second}", f"@2:{first}",
            "wait", "restore", "holds:1", "close",
        )  # fmt: skip
        other = "checkpoint" if second.startswith("save") else second
        assert told(said, "CALL_MISMATCH") == [(0, name), (1, other), (2, name)], said
        text = f"ranks 0, 2 called {name}, rank 1 {other};"
        assert all(text in words for *_, was, words in said if was == "CALL_MISMATCH"), said


def test_a_rank_that_closes_ends_the_session_for_all(calls):
    said = calls("open", "save:1", "wait", "@0:save:2", "@1:close", "@2:restore", "@0:close", "@2:close")
    assert told(said, "CALL_MISMATCH") == [(0, "checkpoint"), (0, "close"), (1, "close"), (2, "close"), (2, "restore")]
    text = "rank 0 called checkpoint, rank 1 close, rank 2 restore;"
    assert all(text in words for *_, was, words in said if was == "CALL_MISMATCH"), said
    assert not [one for one in calls("open", "restore", "holds:1", "close") if one[2] == "WRONG"]


@pytest.mark.each_mpi
def test_a_close_after_the_end_of_mpi_says_so(calls):
    said = calls("open", "save:1", "wait", "finalize", "close")
    assert told(said, "GROUP_FAILED") == [(0, "close"), (1, "close"), (2, "close")], said
    assert all("MPI was finalized" in words for *_, was, words in said if was == "GROUP_FAILED"), said


@pytest.mark.parametrize("language", ["c++", "fortran"])
def test_the_errors_of_calls_have_their_names_in(mpi, scratch, language):
    if language == "c++":
        program = build_cxx("refused.cpp", "refused-cxx", mpi=mpi)
    else:
        program = build_fortran(FORTRAN_SOURCES / "refused.f90", "refused-fortran", mpi)
    status, output = run(2, [program, scratch / "space"], scratch, mpi=mpi)
    assert status == 0 and output == "done", output
