"""The Fortran module: every type and call, its refusals, and examples/heat, killed and restarted."""

import json
import re
import subprocess

import fortran
import pytest
from job import Job
from jobs import run
from limits import LIMIT_S
from mpi import BUILT, ROOT
from programs import FORTRAN_SOURCES, build_fortran
from ways import rarely

RANKS = 3
EVERY = 11  # odd: the plate is in one array or the other
KILL_AT = 60
ENDLESS = 10**8  # steps: the job is killed long before
FURTHER = 500  # steps after the last that the killed job told of
STEP = re.compile(r"step (\d+)$")
RESTORED = re.compile(r"restored revision (\d+), step (\d+)$", re.M)


@pytest.fixture(scope="module")
def session(mpi):
    # It compares the saved values bit for bit.
    return build_fortran(FORTRAN_SOURCES / "session.f90", "session-fortran", mpi, "-Wno-compare-reals")


@pytest.mark.parametrize("optimised", ["-O3", *rarely("-O1")])
def test_calls_that_fail_give_nothing(mpi, scratch, optimised):
    """The compiler kept old values unless C wrote new ones: `due` was true, and a revision had any number."""
    program = build_fortran(FORTRAN_SOURCES / "failed.f90", f"failed{optimised}", mpi, checked=[optimised])
    status, output = run(1, [program, scratch / "space"], scratch, mpi=mpi)
    assert status == 0 and output.endswith("done"), output


def test_every_type_and_call(session, mpi, scratch):
    status, output = run(1, [session, scratch / "space", scratch / "output"], scratch, mpi=mpi)
    assert status == 0 and output == "done", output

    shown = subprocess.check_output([BUILT / "mainstay", "show", "--json", scratch / "space"])
    items = json.loads(shown)["revision"]["shard_list"][0]["items"]
    # The slowest dimension is first here; in Fortran it is last.
    assert {item["name"]: (item["element_type"], item["shape"]) for item in items} == {
        "i8": ("i8", []), "i16": ("i16", [2]), "i32": ("i32", [3, 2]), "i64": ("i64", [4, 3, 2]),
        "f32": ("f32", []), "f64": ("f64", [3, 5]), "f80": ("bytes", [2, 16]), "c64": ("c64", []),
        "c128": ("c128", [3]), "flag": ("i32", []), "flags": ("bool", [5]), "words": ("bytes", [2, 6]),
        "points": ("bytes", [4, 32]), "empty": ("f64", [3, 0]), "deep": ("f64", [2, 1, 1, 1, 1, 1, 1, 1]),
        "view": ("f64", [7]), "section": ("i64", [2, 3, 2]),
    }  # fmt: skip


def test_an_error_without_stat_ends_the_job_and_says_why(session, mpi, scratch):
    status, output = run(1, [session, scratch / "space", scratch / "output", "on"], scratch, mpi=mpi)
    assert status != 0 and re.search(r"^done$", output, re.M) is None, output
    assert "mainstay: INVALID_ARGUMENT: session: a null pointer" in output, output


def test_a_reader_gives_what_all_ranks_have_saved(mpi, scratch):
    reader = build_fortran(FORTRAN_SOURCES / "reader.f90", "reader-fortran", mpi)
    status, output = run(RANKS, [reader, scratch / "space"], scratch, mpi=mpi)
    assert status == 0 and output == "done", output
    listed = subprocess.check_output([BUILT / "mainstay", "ls", "--json", scratch / "space"])
    assert json.loads(listed)["holds"] == [], "a reader left its hold"


def test_the_declarations_are_those_of_c():
    assert fortran.WRITTEN.read_text() == fortran.generated(), "mainstay_c.inc differs from C: run `make header`"


@pytest.mark.campaign
def test_heat_killed_and_started_again_gives_the_undisturbed_bits(mpi, scratch):
    heat = build_fortran(ROOT / "examples" / "heat" / "heat.f90", "heat", mpi)
    reached = 0
    with Job(RANKS, [heat, scratch / "space", scratch / "none", ENDLESS, EVERY], scratch, LIMIT_S, mpi) as job:
        for line in job.lines():
            if match := STEP.match(line):
                reached = int(match[1])
                if reached == KILL_AT:
                    job.kill_rank(1)
        assert job.wait() != 0, job.tail()

    steps = reached + FURTHER
    status, output = run(RANKS, [heat, scratch / "space", scratch / "again", steps, EVERY], scratch, mpi=mpi)
    assert status == 0, output
    restored = int(RESTORED.search(output)[2])
    assert 0 < restored < steps and restored % EVERY == 0
    status, output = run(RANKS, [heat, scratch / "other", scratch / "undisturbed", steps, EVERY], scratch, mpi=mpi)
    assert status == 0 and not RESTORED.search(output), output
    # The restored state differs from the final state, so a wrong restore would be visible.
    status, output = run(RANKS, [heat, scratch / "third", scratch / "early", restored, EVERY], scratch, mpi=mpi)
    assert status == 0, output
    for rank in range(RANKS):
        again, undisturbed, early = (
            (scratch / f"{name}.{rank}").read_bytes() for name in ("again", "undisturbed", "early")
        )
        assert again == undisturbed != early


@pytest.mark.campaign
def test_heat_goes_on_with_other_numbers_of_ranks(mpi, scratch):
    """Bit for bit: the parts in order are one plate."""
    heat = build_fortran(ROOT / "examples" / "heat" / "heat.f90", "heat", mpi)
    steps = KILL_AT
    for space in ("space", "other"):
        status, output = run(RANKS, [heat, scratch / space, scratch / space, steps, EVERY], scratch, mpi=mpi)
        assert status == 0, output
    for ranks in (2, 1):
        steps += EVERY
        status, output = run(ranks, [heat, scratch / "space", scratch / "others", steps, EVERY], scratch, mpi=mpi)
        assert status == 0 and RESTORED.search(output), output
        status, output = run(RANKS, [heat, scratch / "other", scratch / "whole", steps, EVERY], scratch, mpi=mpi)
        assert status == 0, output
        whole, others = (
            b"".join((scratch / f"{name}.{rank}").read_bytes() for rank in range(count))
            for name, count in (("whole", RANKS), ("others", ranks))
        )
        assert whole == others
