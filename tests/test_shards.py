"""Jobs with other numbers of ranks divide each rank's own data, and data put beside regions is left for `get`: in
each language."""

import re

import pytest
from jobs import run
from programs import FORTRAN_SOURCES, build_c, build_cxx, build_fortran, build_python
from staged import pool_directory
from ways import rarely

SAVED = 4
SHARD = re.compile(r"^shard (\d+): (\d+) particles, sum (\d+)$", re.M)


@pytest.fixture(params=["c", *rarely("cxx", "fortran", "python")])
def job(request, mpi, scratch):
    """Runs a mode of the program with this number of ranks; returns its output."""
    if request.param == "c":
        program = [build_c(["shards.c"], "shards", mpi=mpi)]
    elif request.param == "cxx":
        program = [build_cxx("shards.cpp", "shards-cxx", mpi=mpi)]
    elif request.param == "fortran":
        program = [build_fortran(FORTRAN_SOURCES / "shards.f90", "shards-fortran", mpi)]
    else:
        program = [mpi.command("python"), build_python("shards.py", "shards-python")]

    def start(ranks, mode):
        status, output = run(ranks, [*program, scratch / "space", mode], scratch, mpi=mpi)
        assert status == 0 and "WRONG" not in output, output
        return output

    return start


def particles(shard):
    count = 1000 * (shard + 1)
    return (shard, count, 1_000_000 * shard * count + count * (count - 1) // 2)


@pytest.mark.parametrize("memory", ["auto", *rarely("off")])
def test_ranks_of_any_number_divide_what_each_kept_for_itself(job, monkeypatch, memory):
    """It was refused, or needed a reader from outside, which sees no memory of other nodes."""
    with pool_directory() as pools:
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", str(pools))
        monkeypatch.setenv("MAINSTAY_MEMORY", memory)
        monkeypatch.setenv("MAINSTAY_MEMORY_AFTER", "kept")
        # Data in memory alone is read from there.
        monkeypatch.setenv("MAINSTAY_PFS_EVERY", "0" if memory == "auto" else "1")
        job(SAVED, "save")
        for ranks in 2, 3, 6:
            told = sorted(tuple(map(int, shard)) for shard in SHARD.findall(job(ranks, "read")))
            assert told == [particles(shard) for shard in range(SAVED)], ranks


def test_what_was_put_beside_a_region_does_not_stand_in_the_way_of_a_restore(job):
    """It was taken for a region that the program had forgotten: REGION_MISSING."""
    job(2, "put")
    job(2, "again")
