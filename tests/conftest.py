"""What all tests share: where they work, and the proof that nothing of theirs is left behind."""

import os
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "examples" / "jacobi3d")]

from mpi import MPIS, SHARED_MEMORY  # noqa: E402

# Every process that a test starts, and its children, carry this in their environment.
MARK = f"MAINSTAY_TEST_SESSION={uuid.uuid4()}"
END_LIMIT_S = 10


@pytest.fixture(scope="session", autouse=True)
def no_leftovers():
    """At the end: no process of the tests is alive, no file of Mainstay is in /dev/shm, nothing temporary is left."""
    before = shared_memory()
    name, value = MARK.split("=")
    os.environ[name] = value
    # All that is temporary lies below one folder, also what programs make of their own accord.
    folder = Path(tempfile.mkdtemp(prefix="mainstay-tests-"))
    folder.chmod(0o711)  # one test works as another user
    usual, tempfile.tempdir = tempfile.tempdir, str(folder)
    yield
    tempfile.tempdir = usual
    # The pools of jobs that were killed are removed by the next opening.
    import mainstay

    mainstay.open(folder / "last").close()
    shutil.rmtree(folder / "last")
    # What pytest's own tmp_path keeps goes with the folder.
    left = sorted(path.name for path in folder.iterdir() if not path.name.startswith("pytest-of-"))
    shutil.rmtree(folder)
    assert not (alive := processes()), f"the tests left processes behind: {alive}"
    assert not (new := shared_memory() - before), f"the tests left files in /dev/shm: {sorted(new)}"
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


def shared_memory():
    ours = {path.name for path in SHARED_MEMORY.iterdir() if "mainstay" in path.name}
    return ours.union(*({path.name for path in mpi.left_in_shared_memory()} for mpi in MPIS))


def processes():
    """Processes of this session, but for this one; they get a moment to disappear."""
    deadline = time.monotonic() + END_LIMIT_S
    while (found := marked()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def marked():
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if MARK.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(f"{entry.name} {(entry / 'comm').read_text().strip()}")
            except OSError:
                pass  # gone meanwhile, or another user's
    return found
