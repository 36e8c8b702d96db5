"""What all tests share: where they work, and the proof that nothing of theirs is left behind."""

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

# Every process that tests start, and their children, carry this in their environment: those of all workers the same.
MARK_NAME = "MAINSTAY_TEST_SESSION"
# Programs save at the steps that the tests count on, however long the checkpoint before takes.
os.environ.setdefault("MAINSTAY_WHEN_BUSY", "now")
MARK = f"{MARK_NAME}={os.environ.setdefault(MARK_NAME, str(uuid.uuid4()))}"
END_LIMIT_S = 10
MAINSTAY = BUILT / "mainstay"
# Where tests run side by side, those of these files run one after the other, in one process: they share what takes long to
# make. The others go one by one to whichever process is free, which makes what they share anew in each.
TOGETHER = {f"test_{name}.py" for name in ("bench", "bench_run", "cephfs", "cmake", "guide", "install", "view", "wheel")}
STARTED = pytest.StashKey()
SPENT = pytest.StashKey()


def pytest_sessionstart(session):
    """Once, also where tests run side by side in workers."""
    if not is_worker(session.config):
        for mpi in MPIS:
            mpi.found()
        session.stash[STARTED] = unused_shared_memory()


@pytest.hookimpl(trylast=True)  # once workers are gone
def pytest_sessionfinish(session):
    """Once all workers are through: no process of the tests is alive, and none of their files is in /dev/shm."""
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
    """Every test that takes an MPI runs with Open MPI. With MPICH the campaign runs them all, and `make test` those that are
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
    """Tells tools/test.py what the test took of the processors, its jobs and what it was the first to build included; and how
    many jobs of an MPI it started."""
    told = yield
    seconds, launches = item.stash[SPENT]
    item.user_properties.append(("processor_s", f"{processor_s() - seconds:.3f}"))
    item.user_properties.append(("mpi_jobs", mpis.launches - launches))
    item.user_properties.append(("runs", getattr(item, "execution_count", 1)))
    return told


def processor_s():
    """Seconds of processors that this process has taken, and those that it has started and that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.fixture(scope="session", autouse=True)
def no_leftovers():
    """At the end nothing temporary is left of this process's tests."""
    # All that is temporary lies below one folder, also what programs make of their own accord.
    folder = Path(tempfile.mkdtemp(prefix="mainstay-tests-"))
    folder.chmod(0o711)  # one test works as another user
    usual, tempfile.tempdir = tempfile.tempdir, str(folder)
    yield
    tempfile.tempdir = usual
    # What pytest's own tmp_path keeps goes with the folder.
    left = sorted(path.name for path in folder.iterdir() if not path.name.startswith("pytest-of-"))
    shutil.rmtree(folder)
    assert not left, f"the tests left files behind: {left}"


@pytest.fixture(scope="session", params=MPIS, ids=str)
def mpi(request):
    """One MPI after the other: a test that asks for it runs with each."""
    missing = f"there is no {request.param.home}: `make {request.param.home.name}/ready` makes it"
    assert Path(request.param.command("mpiexec")).exists(), missing
    return request.param


@pytest.fixture
def scratch():
    """A folder for one test, which other users may pass through."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="session")
def jacobi3d(tmp_path_factory):
    """A command that runs jacobi3d, saving to a space."""
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
    """What came since `before` into /dev/shm, is of no use to any process, and stays.

    The pools of jobs that were killed stay for as long as their spaces do. Jobs beside the tests leave something for
    a moment too: it gets time to go.
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
    """Pools with what lies beside them, and segments of the MPIs, of this user, that no process has mapped."""
    pools = {path for path in SHARED_MEMORY.glob("mainstay-pool-*") if is_ours(path)}
    in_use = mapped({pool_of(path) for path in pools})
    unused = {path for path in pools if pool_of(path) not in in_use}
    return unused.union(*(mpi.left_in_shared_memory() for mpi in MPIS))


def pool_of(path):
    """The pool that the record of a rank lies beside: mainstay-pool-ID of mainstay-pool-ID.RANK."""
    return path.with_suffix("")


def processes(besides):
    """Processes of this session, but for one; they get a moment to disappear."""
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
