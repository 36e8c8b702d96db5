"""Ranks in slots have all of MPI: the same binary program, compiled by MPICH, has the same results there and in slots, in
checks of each part of MPI and in random programs."""

import re

import pytest
from slots import FOLDER, build_native, in_slots, natively
from ways import rarely

PHASES = 80
PARTS = re.compile(r"^\w+: \d+ checks, \d+ failed$", re.M)
DIGESTS = re.compile(r"^rank \d+: \w{16}$", re.M)
RANDOM = [1, *rarely(*range(2, 200))]


def result(pattern, status, output):
    assert status == 0, output
    return pattern.findall(output)


def on_each(command, ranks, scratch, pattern, mpi, processes):
    """The lines of interest: under MPICH, in slots of one process, and in those of several."""
    native = [line for line in natively(command, ranks, scratch) if pattern.fullmatch(line)]
    alone = result(pattern, *in_slots(command, ranks, scratch))
    several = result(pattern, *in_slots(command, ranks, scratch, mpi, processes))
    return native, alone, several


@pytest.mark.parametrize("ranks, processes", [(4, 2), *rarely((2, 2), (3, 2), (5, 3), (8, 3))])
def test_each_part_of_mpi(mpi, scratch, ranks, processes):
    program = build_native(sorted((FOLDER / "parts").glob("*.c")), "parts")
    native, alone, several = on_each([program, scratch], ranks, scratch, PARTS, mpi, processes)
    assert len(native) == 13 and all(line.endswith(", 0 failed") for line in native), native
    assert native == alone == several


@pytest.mark.parametrize("seed", RANDOM)
def test_random_programs(mpi, scratch, seed):
    program = build_native([FOLDER / "random.c"], "random")
    ranks, processes = 2 + seed * 3 % 5, 2 + seed % 2
    native, alone, several = on_each([program, seed, PHASES], ranks, scratch, DIGESTS, mpi, processes)
    assert len(native) == ranks and len(set(native)) == ranks, native
    assert native == alone == several
