"""Jobs in C++, Fortran and other languages that go on when a rank fails."""

import re

import library
import numpy as np
import pytest
from mpi import OPENMPI, ROOT
from programs import FORTRAN_SOURCES, PYTHON, SOURCES, build_c, build_cxx, build_fortran, place
from recovering import Recovering, begun_anew
from staged import pool_directory
from ways import rarely

RANKS = 3
STEPS = 12
PRIME = 1000003


def finished(job):
    with job:
        for _ in job.lines():
            pass
        status = job.wait()
    output = "\n".join(job.output)
    assert status == 0 and "WRONG" not in output and "rank 1 failed; the job went on from revision" in output, output
    assert not begun_anew(output), output
    return output


def on_a_ring(cells):
    field = list(range(cells))
    for _ in range(STEPS):
        field = [(field[at - 1] + field[at] + field[(at + 1) % cells]) % PRIME for at in range(cells)]
    return sum(field)


@pytest.mark.parametrize(
    ("how", "ranks"), [({"spares": 1}, RANKS), *rarely(({"way": "shrink"}, RANKS - 1))], ids=["replace", "shrink"]
)
def test_cxx(scratch, how, ranks):
    program = build_cxx("recovery.cpp", "recovery-cxx", mpi=OPENMPI)
    with pool_directory() as nodes:
        job = Recovering(scratch, nodes).start(RANKS, [program, scratch / "space", STEPS, 1000], scratch, **how)
        assert f"sum {on_a_ring(1000)} on {ranks} ranks" in finished(job)


def test_fortran(scratch):
    program = build_fortran(FORTRAN_SOURCES / "recovery.f90", "recovery-fortran", OPENMPI)
    field = range(1001, 2001)
    for step in range(STEPS):
        field = [(3 * value + step) % PRIME for value in field]
    with pool_directory() as nodes:
        job = Recovering(scratch, nodes).start(RANKS, [program, scratch / "space", STEPS], scratch, spares=1)
        assert f"sum {sum(field)}" in finished(job)


def test_a_step_in_fortran_can_fail(scratch):
    """Before, it could only stop the program, or end the run as if all steps were done."""
    program = build_fortran(FORTRAN_SOURCES / "recovery.f90", "recovery-fortran", OPENMPI)
    with pool_directory() as nodes:
        job = Recovering(scratch, nodes).start(RANKS, [program, scratch / "space", STEPS, 7], scratch, spares=1)
        assert 'run: REGION_MISSING: region "nothing"' in finished(job)


RECOVERS = {
    "cxx": lambda: build_cxx("recovers.cpp", "recovers-cxx", mpi=OPENMPI),
    "fortran": lambda: build_fortran(FORTRAN_SOURCES / "recovers.f90", "recovers-fortran", OPENMPI),
}


@pytest.mark.parametrize("language", RECOVERS)
def test_calls_of_their_own(scratch, language):
    """`recover`, and `check`, by which rank 0 hears of the failure while the others are in a checkpoint."""
    program = RECOVERS[language]()
    with pool_directory() as nodes:
        job = Recovering(scratch, nodes).start(RANKS, [program, scratch / "space", STEPS], scratch, spares=1)
        output = finished(job)
    for rank in range(RANKS):
        field = range(1000 * rank, 1000 * (rank + 1))
        for step in range(STEPS):
            field = [(3 * value + step) % PRIME for value in field]
        assert output.count(f"rank {rank}: {sum(field)}") == 1, output
    assert re.search(r"^back at step [24]$", output, re.M), output


HEARS = {
    "c": lambda: [build_c(["heard.c"], "heard", mpi=OPENMPI)],
    "python": lambda: [OPENMPI.command("python"), PYTHON / "heard.py"],
}
HEARING = 6


@pytest.mark.parametrize("language", ["c", *rarely("python")])
def test_ranks_that_only_check_hear_of_a_failure_soon(scratch, language):
    """Open MPI hears of it in one of eight of its calls, which used to be as many checks."""
    with pool_directory() as nodes:
        words = [*HEARS[language](), scratch / "space", scratch / "died"]
        job = Recovering(scratch, nodes).start(HEARING, words, scratch, way="shrink")
        with job:
            for _ in job.lines():
                pass
            assert job.wait() == 0, job.output
        heard = re.findall(r"^rank (\d) has heard of it at check (\d+)$", "\n".join(job.output), re.M)
        # The first may come before MPI's own word of it.
        assert len(heard) == HEARING - 1 and all(int(asked) <= 3 for _, asked in heard), job.output


def relaxed():
    """The result of examples/relax."""
    cells = np.arange(3000.0) % 1000
    for _ in range(20):
        old, most = cells.copy(), 1.0
        while most > 1e-6:
            after = (old + np.roll(cells, 1) + np.roll(cells, -1)) / 3
            cells, most = after, np.abs(after - cells).max()
    return f"the first cell is {cells[0]:.12f}"


def relaxing(language):
    folder, dies = ROOT / "examples" / "relax", SOURCES / "dies.c"
    if language == "c":
        return build_c([folder / "relax.c", folder / "messages.c", dies], "relax", "-lm")
    if language == "cxx":
        return build_cxx(folder / "relax.cpp", "relax-cxx", dies)
    compiled = place(OPENMPI, "dies.o")
    library.run([OPENMPI.command("mpicc"), "-O1", "-c", dies, "-o", compiled])
    return build_fortran(folder / "relax.f90", "relax-fortran", OPENMPI, link=[compiled, *library.link_flags()])


@pytest.mark.parametrize("language", ["c", *rarely("cxx", "fortran")])
def test_a_message_that_fails_deep_in_a_solver_ends_the_step(language, scratch, monkeypatch):
    """Solvers that iterate until nothing changes: after an error they went on for ever, or with wrong numbers."""
    monkeypatch.chdir(scratch)
    with pool_directory() as nodes:
        how = {"DIES_AT": 300, "DIES_MARK": scratch / "died"}
        job = Recovering(scratch, nodes).start(RANKS, [relaxing(language)], scratch, spares=1, **how)
        assert relaxed() in finished(job)
    assert (scratch / "died").exists()
