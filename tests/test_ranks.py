"""The library's needs of an MPI, by the C table and by mpi4py: messages in progress, the failed ranks, and a group
without them; an MPI that lacks these says so."""

import pytest
from jobs import run
from mpi import SURVIVING
from programs import PYTHON, build_c
from ways import rarely

RANKS = 4


@pytest.fixture(params=["c", "python"])
def ranks(request):
    """Runs a mode of the program with an MPI; returns its output."""

    def start(mode, mpi, scratch):
        if request.param == "c":
            command = [build_c(["ranks.c"], "ranks", mpi=mpi)]
        else:
            command = [mpi.command("python"), PYTHON / "ranks.py"]
        status, output = run(RANKS, [*command, mode], scratch, mpi=mpi)
        assert "WRONG" not in output, output
        return status, output

    return start


def test_messages_are_under_way_beside_those_that_are_waited_for(ranks, mpi, scratch):
    status, output = ranks("messages", mpi, scratch)
    assert status == 0 and output.count("done") == RANKS, output


@pytest.mark.each_mpi
def test_messages_that_nobody_has_received_end_no_program(mpi, scratch):
    """A session that is freed after an error has such messages: MPICH ended the program in MPI_Comm_free."""
    status, output = run(RANKS, [build_c(["ranks.c"], "ranks", mpi=mpi), "unread"], scratch, mpi=mpi)
    assert status == 0 and output.count("done") == RANKS and "WRONG" not in output, output


@pytest.mark.each_mpi
def test_ranks_that_cannot_go_on_without_others_say_so(ranks, mpi, scratch):
    """MPICH, with functions of this name that end the program, and Open MPI without the option."""
    status, output = ranks("refuses", mpi, scratch)
    assert status == 0 and output.count("cannot shrink") == RANKS, output


@pytest.mark.parametrize("mode", [*rarely("shrink"), "shrink_twice"])
def test_ranks_that_are_left_go_on(ranks, scratch, mode):
    """The first rank is killed, then the last; mpiexec's status shows nothing about the others. A rank that got an
    error while the new group was made left the others waiting in it."""
    _, output = ranks(mode, SURVIVING, scratch)
    assert "rank 1: 0 of 2" in output and "rank 2: 1 of 2" in output and output.count("done") == 2, output
