"""`mainstay files` with parallel HDF5, and with MPI-IO in Fortran: files that the ranks of one node or two write together.

The MPIs of Debian have both. Those in .venv and .venv-mpich have neither.
"""

import shutil
import subprocess

import h5py
import numpy as np
import pytest
from limits import LIMIT_S, until
from nodes import nodes as made_nodes
from protected import SOURCES
from test_files_mpi import BLOCKS, ONE, TWO, Job

pytestmark = pytest.mark.campaign  # it takes packages of Debian
MPIS = ("openmpi", "mpich")
# Ranks of different nodes must not share memory, although they could on this machine.
OPENMPI = "--allow-run-as-root --mca btl self,tcp --mca coll ^sm --oversubscribe --bind-to none --mca plm_rsh_agent"
PACKAGES = "apt-get install {0} libhdf5-{0}-dev"
NUMBERS = 250  # of a block of mpi_io.f90
ROWS = 10000  # as in parallel_hdf5.c


class DebianJob(Job):
    program = ()

    def mpiexec(self):
        if self.mpi == "mpich":
            return ["env", "HWLOC_XMLFILE=/dev/null", "mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", self.nodes.shell, "-hosts"]  # fmt: skip
        return ["mpiexec.openmpi", *OPENMPI.split(), self.nodes.shell, "--host"]

    def words(self, places, *calls, **more):
        return super().words(places, *calls, **{"program": self.program} | more)

    def build(self, compiler, source, *flags):
        """Compiles the program of these jobs, or skips the test if there is no compiler."""
        command = f"{compiler}.{self.mpi}"
        if not shutil.which(command):
            pytest.skip(f"there is no {command}: {PACKAGES.format(self.mpi)}")
        folder = self.folder.with_name("built")
        folder.mkdir()
        words = [command, "-O1", "-Wall", "-Wextra", "-Werror", *flags, SOURCES / source, "-o", folder / "program"]
        subprocess.run(list(map(str, words)), check=True, cwd=folder, timeout=LIMIT_S)
        self.program = [folder / "program"]


@pytest.fixture(params=MPIS)
def job(request, scratch):
    with made_nodes() as nodes:
        yield DebianJob(nodes, request.param, scratch)


def hdf5(job, value, places):
    """Compares the file under the name with the content of a value."""
    with h5py.File(job.path) as file:
        for name in "xy":
            found = file[name][:]
            assert found.shape == (sum(places.values()), ROWS)
            assert (found.ravel() == value * 1000000 + np.arange(found.size)).all()


def fortran(job, value, places):
    numbers = np.fromfile(job.path, np.int32)
    assert numbers.size == NUMBERS * BLOCKS * sum(places.values()) and (numbers == value).all()


PROGRAMS = {
    "hdf5": (["h5pcc", "parallel_hdf5.c", "-std=gnu11"], hdf5),
    "fortran": (["mpif90", "mpi_io.f90", "-cpp"], fortran),
    "fortran-2008": (["mpif90", "mpi_io.f90", "-cpp", "-DOF_2008"], fortran),
}


@pytest.mark.parametrize("places", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_of_all_ranks_is_whole_whichever_rank_is_killed(job, program, places):
    words, check = PROGRAMS[program]
    job.build(*words)
    ranks = sum(places.values())
    job.good(places, "create", "write:1", "close")
    check(job, 1, places)
    job.good(places, "update", "write:2", "close")
    check(job, 2, places)
    assert (job.generations(), job.unfinished()) == (2, [])
    for killed in range(ranks):
        job.killed(places, "update", "write:3", "barrier", f"kill:{killed}", "barrier", "close")
        check(job, 2, places)
    # A new start goes on from it.
    job.good(places, "update", "write:4", "close")
    check(job, 4, places)
    # Over nodes no rank returns from its close before the file is safe. A helper brings it to its name.
    closed = ["close", "barrier"] if places is ONE else ["close"]
    job.killed(places, "create", "write:5", *closed, f"kill:{ranks - 1}", "update")
    until(lambda: not job.unfinished() and job.generations() == 4)
    check(job, 5, places)


@pytest.mark.parametrize("places", [ONE, TWO], ids=["one", "two"])
def test_parallel_hdf5_reads_its_new_file_back(job, places):
    """In the same job, and by a job that only reads."""
    job.build(*PROGRAMS["hdf5"][0])
    job.good(
        places, "create", "write:1", "close", "readonly", "check:1", "close", "update", "write:2", "check:2", "close"
    )
    job.good(places, "readonly", "check:2", "close")
    assert (job.generations(), job.unfinished()) == (2, [])
