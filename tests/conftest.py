"""Fixtures of all tests: their folders, and the proof that the tests leave nothing behind."""

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "examples" / "jacobi3d")]

import mpi as mpis  # noqa: E402
from mpi import BUILT, MPICH, MPIS, SHARED_MEMORY, is_ours, mapped  # noqa: E402

# Every process that tests start has this in its environment, and so do its children. All workers use the same value.
MARK_NAME = "MAINSTAY_TEST_SESSION"
# Programs save at the steps that the tests count on, however long the checkpoint before takes.
os.environ.setdefault("MAINSTAY_WHEN_BUSY", "now")
MARK = f"{MARK_NAME}={os.environ.setdefault(MARK_NAME, str(uuid.uuid4()))}"
END_LIMIT_S = 10
MAINSTAY = BUILT / "mainstay"
# If tests run in parallel, the tests of each of these files run one after the other, in one process: their shared
# fixtures take long to make. Other tests run one by one in any free process, which makes its own fixtures.
TOGETHER = {
    f"test_{name}.py" for name in ("bench", "bench_run", "cephfs", "cmake", "guide", "install", "view", "wheel")
}
STARTED = pytest.StashKey()
SPENT = pytest.StashKey()


def pytest_sessionstart(session):
    """Runs once, also if tests run in parallel workers."""
    if not is_worker(session.config):
        for mpi in MPIS:
            mpi.found()
        session.stash[STARTED] = unused_shared_memory()


@pytest.hookimpl(trylast=True)  # once workers are gone
def pytest_sessionfinish(session):
    """Runs once all workers have ended: no process of the tests is alive, and no file of theirs is in /dev/shm."""
    if STARTED not in session.stash:
        return
    left = []
    if alive := processes(besides=os.getpid()):
        left.append(f"the tests left processes behind: {alive}")
    if new := left_in_shared_memory(session.stash[STARTED]):
        left.append(f"the tests left files in /dev/shm: {sorted(map(str, new))}")
    if left:
        print("", *left, sep="\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return file if Path(file).name in TOGETHER else nodeid

    return Scheduling(config, log)


def is_worker(config):
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)  # before the tests are chosen by their marks
def pytest_collection_modifyitems(items):
    """Every test with an MPI runs with Open MPI. The campaign runs them all with MPICH, too; `make test` only the tests
    marked `each_mpi`."""
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(value is MPICH for value in values) and not item.get_closest_marker("each_mpi"):
            item.add_marker("campaign")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[SPENT] = processor_s(), mpis.launches


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """Reports to tools/test.py the processor time of the test, with its jobs and the builds that it was the first to
    need, and the number of its MPI jobs."""
    told = yield
    seconds, launches = item.stash[SPENT]
    item.user_properties.append(("processor_s", f"{processor_s() - seconds:.3f}"))
    item.user_properties.append(("mpi_jobs", mpis.launches - launches))
    item.user_properties.append(("runs", getattr(item, "execution_count", 1)))
    return told


def processor_s():
    """Processor seconds of this process, and of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.fixture(scope="session", autouse=True)
def no_leftovers():
    """Checks at the end that this process's tests leave no temporary file."""
    # One folder has all temporary files, also those that programs make by themselves.
    folder = Path(tempfile.mkdtemp(prefix="mainstay-tests-"))
    folder.chmod(0o711)  # one test works as another user
    usual, tempfile.tempdir = tempfile.tempdir, str(folder)
    yield
    tempfile.tempdir = usual
    # The files of pytest's own tmp_path are removed with the folder.
    left = sorted(path.name for path in folder.iterdir() if not path.name.startswith("pytest-of-"))
    remove(folder)
    assert not left, f"the tests left files behind: {left}"


@pytest.fixture(scope="session", params=MPIS, ids=str)
def mpi(request):
    """One MPI after the other: a test with this argument runs with each."""
    missing = f"there is no {request.param.home}: `make {request.param.home.name}/ready` makes it"
    assert Path(request.param.command("mpiexec")).exists(), missing
    return request.param


@pytest.fixture
def scratch():
    """A folder for one test. Other users may pass through it."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    remove(path)


def remove(folder, tries=100):
    """Removes a folder with spaces of killed jobs.

    Whenever another job starts, of any test, it removes the pool of the killed job, and writes and renames a file in such a
    space.
    """
    while True:
        tries -= 1
        try:
            return shutil.rmtree(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or not tries:
                raise


@pytest.fixture(scope="session")
def jacobi3d(tmp_path_factory):
    """A command that runs jacobi3d and saves to a space."""
    import dem
    from build import build

    folder = tmp_path_factory.mktemp("jacobi3d")
    build(folder / "jacobi3d")
    dem.write(folder / "dem")

    def command(space, steps, every):
        return [folder / "jacobi3d", "--dem", folder / "dem", "--nx", 40, "--ny", 36, "--nz", 20,
                "--steps", steps, "--space", space, "--every", every, "--progress", every]  # fmt: skip

    return command


def left_in_shared_memory(before):
    """The files that came to /dev/shm after `before`, that no process uses, and that stay.

    Pools of killed jobs stay as long as their spaces. Jobs beside the tests may also leave files for a moment; they get
    time to remove them.
    """
    deadline = time.monotonic() + END_LIMIT_S
    while True:
        for mpi in MPIS:
            mpi.clear()
        subprocess.run([MAINSTAY, "salvage", "--all", "--clean"], stdout=subprocess.DEVNULL, timeout=END_LIMIT_S)
        if not (new := unused_shared_memory() - before) or time.monotonic() > deadline:
            return new
        time.sleep(0.1)


def unused_shared_memory():
    """Files of this user that no process has mapped: pools, the records beside them, and segments of the MPIs."""
    pools = {path for path in SHARED_MEMORY.glob("mainstay-pool-*") if is_ours(path)}
    in_use = mapped({pool_of(path) for path in pools})
    unused = {path for path in pools if pool_of(path) not in in_use}
    return unused.union(*(mpi.left_in_shared_memory() for mpi in MPIS))


def pool_of(path):
    """The pool beside which a rank's record is stored: mainstay-pool-ID for mainstay-pool-ID.RANK."""
    return path.with_suffix("")


def processes(besides):
    """Processes of this session except one; they get a moment to end."""
    deadline = time.monotonic() + END_LIMIT_S
    while (found := marked(besides)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def marked(besides):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != besides:
            try:
                if MARK.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(f"{entry.name} {(entry / 'comm').read_text().strip()}")
            except OSError:
                pass  # gone meanwhile, or another user's
    return found
