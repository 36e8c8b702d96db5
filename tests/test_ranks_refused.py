"""Each limit of ranks in slots has a message: calls of the system and of MPI, and a restart with something that has
changed."""

import os
import re
import shutil
import subprocess

import pytest
from command import mainstay
from limits import LIMIT_S
from mpi import OPENMPI
from slots import build, in_slots, killer

RANKS = 2
NO_PROCESS = "it tried to start another process (fork, system, popen), which a rank in a slot cannot"
NO_THREAD = "it tried to start a thread, which a rank in a slot cannot; set OMP_NUM_THREADS=1"
# The program goes on after a refused call of the system.
OF_SYSTEM = {
    "thread": NO_THREAD,
    "system": NO_PROCESS,
    "fork": NO_PROCESS,
    "popen": NO_PROCESS,
    "exec": "it tried to replace its program (exec), which a rank in a slot cannot",
    "segment": "it tried to share memory with another process (System V), which a rank in a slot cannot",
    "slot": "its slot of 65536 MiB has no room for 17179869184 bytes; a job of fewer ranks has larger slots",
    "mappings": "its process has too many mappings of memory; raise vm.max_map_count, or start more processes",
    "timer": "it set a timer that sends signals, which do not reach a rank in a slot",
    "shared": "it mapped a file to share its writes, which a rank in a slot cannot",
}
OF_MPI = {
    "MPI_Win_create": "One-sided communication does not exist in slots",
    "MPI_Win_allocate": "One-sided communication does not exist in slots",
    "MPI_Comm_spawn": "Start all ranks at once, with --virtual",
    "MPI_Session_init": "Start MPI with MPI_Init or MPI_Init_thread",
    "MPI_File_read_shared": "Use an individual file pointer or explicit offsets",
}


def program(name="refused.c", build_name="one"):
    return build(name, "-fopenmp", f'-DBUILD="{build_name}"', name=f"refused-{build_name}")


@pytest.fixture
def file(scratch):
    (scratch / "file").write_text("data")
    return scratch / "file"


@pytest.mark.parametrize("case", OF_SYSTEM)
def test_a_call_of_the_system_fails_with_a_message(case, scratch, file):
    status, output = in_slots([program(), case, file], RANKS, scratch)
    assert status == 0 and "works: 0" in output and f"rank 0: {OF_SYSTEM[case]}" in output, output
    assert "level 1" in output, output  # MPI_THREAD_MULTIPLE is not given


def test_openmp_with_two_threads_ends_with_a_message(scratch):
    status, output = in_slots([program(), "openmp"], RANKS, scratch)
    assert status != 0 and "works" not in output and f"rank 0: {NO_THREAD}" in output, output
    # With one thread it works.
    status, output = in_slots([program(), "openmp"], RANKS, scratch, OMP_THREAD_LIMIT=1)
    assert status == 0 and "works: 1" in output, output


@pytest.mark.parametrize("case", OF_MPI)
def test_a_function_of_mpi_ends_the_job_with_its_name(case, scratch, file):
    status, output = in_slots([program(), case, file], RANKS, scratch)
    assert status != 0 and "works" not in output, output
    assert f"rank 0: {case} is not supported in slots. {OF_MPI[case]}" in output, output


def test_the_start_names_the_languages_and_the_limits(scratch):
    def said(program):
        status, output = in_slots([program], RANKS, scratch, options=["--dry-run"])
        assert status == 0, output
        return output

    of_c = said(program())
    assert "built for MPICH's ABI; 2 ranks" in of_c and "uses OpenMP, but a rank has one thread" in of_c, of_c
    missing = "MPI_Comm_spawn, MPI_File_read_shared, MPI_Session_init, MPI_Win_allocate and 1 more"
    assert f"uses {missing}; these calls fail in slots" in of_c, of_c
    of_cxx = said(build("state.cpp"))
    assert "built for MPICH's ABI, with C++; 2 ranks" in of_cxx and "uses" not in of_cxx, of_cxx
    of_fortran = said(build("state.f90"))
    assert "built for MPICH's ABI, with Fortran; 2 ranks" in of_fortran, of_fortran


@pytest.mark.parametrize("case", OF_MPI)
def test_a_function_of_mpi_returns_an_error_to_a_program_that_handles_it(case, scratch, file):
    """The job ended, so a program could not try one function and then use another. The message comes once."""
    status, output = in_slots([program(), case, file], RANKS, scratch, RETURNS=1)
    assert status == 0 and "works: 0" in output, output
    assert output.count(f"rank 0: {case} is not supported in slots. {OF_MPI[case]}") == 1, output


def refused(command, ranks, scratch, why):
    status, output = in_slots(command, ranks, scratch)
    assert status not in (0, 75) and "build" not in re.sub("start 1:.*|.*built for.*|another build", "", output), output
    assert why in output, output


def test_a_restart_with_something_that_has_changed_is_refused(scratch, file):
    """All with one killed job, which goes on at the end."""
    go, mine = scratch / "go", scratch / "mine"
    shutil.copy2(program(), mine)
    command = [mine, "wait", go, file]
    events = {"LD_PRELOAD": killer(), "KILL_AT": "sync:20", "KILL_NOTE": scratch / "killed"}
    status, output = in_slots(command, RANKS, scratch, options=("--every", "1ms"), **events)
    assert status != 0 and (scratch / "killed").exists(), output
    assert any(one["state"] == "newest" for one in mainstay("ls", scratch / "space")["revisions"])
    refused([*command, "more"], RANKS, scratch, "was started as")
    refused(command, RANKS + 1, scratch, f"has {RANKS} ranks, not {RANKS + 1}; go on with --virtual {RANKS}")
    other = scratch / "other"
    shutil.copy2(mine, other)
    refused([other, *command[1:]], RANKS, scratch, "was started as")
    os.replace(mine, scratch / "kept")
    shutil.copy2(program(build_name="two"), mine)
    refused(command, RANKS, scratch, "is not the program that was saved, but another build")
    os.replace(scratch / "kept", mine)
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_text("date")
    refused(command, RANKS, scratch, "is not the file that was saved with")
    file.rename(scratch / "away")
    refused(command, RANKS, scratch, "No such file")
    file.write_text("data")
    os.utime(file, ns=times)
    go.touch()
    status, output = in_slots(command, RANKS, scratch)
    assert status == 0 and "build one" in output, output


def test_a_space_of_another_kind_is_refused(scratch, jacobi3d):
    words = OPENMPI.mpiexec(1, jacobi3d(scratch / "space", 4, 2))
    subprocess.run(words, cwd=scratch, env=OPENMPI.environment(scratch), check=True, timeout=LIMIT_S)
    refused([program(), "none"], RANKS, scratch, "are not of ranks in slots; name another space")
