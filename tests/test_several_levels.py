"""Several levels in real jobs: each checkpoint is in the memory of the nodes first, and goes from there to the disks and to the
space that was opened. A job that is killed comes back from the nearest level that is left."""

import re
import shutil
import subprocess
import sys

import pytest
from command import mainstay as told_by
from jobs import DEATH, RANKS, STEPS, run
from limits import LIMIT_S
from mpi import OPENMPI
from programs import FORTRAN_SOURCES, build_c, build_cxx, build_fortran, build_python
from staged import pool_directory
from ways import rarely

OF_A_SPACE = "mainstay-level-*"
EVERY = 10  # steps, of c/adopt.c


@pytest.fixture
def pools(monkeypatch):
    with pool_directory() as folder:
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", str(folder))
        yield folder


def adopt(mpi, scratch, *arguments):
    return run(RANKS, [build_c(["adopt.c"], "adopt", mpi=mpi), scratch / "space", *arguments], scratch, mpi=mpi)


def revisions(place):
    """The revisions in the directory itself, of a level or of the space."""
    found = told_by("ls", place)["revisions"]
    return sorted(one["revision"] for one in found if not one["levels"] or one["levels"][-1]["level"] == "space")


def test_a_program_goes_back_to_any_revision_and_it_stays(scratch):
    """Also to a revision that the nearest level has only by chance: it keeps fewer."""
    program = build_c(["went_back.c"], "went_back")
    (scratch / "disk").mkdir()
    status, told = run(RANKS, [program, scratch / "space", scratch / "disk"], scratch)
    assert status == 0, told


def test_feeding_farther_levels_leaves_no_memory_behind(scratch, pools, monkeypatch):
    """Lists for each revision must not stay in the program's heap: with 64 MiB it grew by 8 to 11 MiB, and by the same
    again in a longer run."""
    (scratch / "disk").mkdir()
    for name, value in {"MEMORY": "auto", "DISK": str(scratch / "disk"), "PFS_EVERY": "1", "DISK_EVERY": "1"}.items():
        monkeypatch.setenv(f"MAINSTAY_{name}", value)
    status, told = run(1, [build_c(["resident.c"], "resident"), scratch / "space", 64, 12], scratch)
    grown = int(re.search(r"^grown by (-?[0-9]+) KiB$", told, re.M)[1])
    assert status == 0 and grown < 6 * 1024, told


@pytest.mark.parametrize("lost", [*rarely(False), True])
def test_a_killed_job_comes_back_from_what_is_left(mpi, scratch, pools, monkeypatch, lost):
    monkeypatch.setenv("MAINSTAY_MEMORY", "auto")
    monkeypatch.setenv("MAINSTAY_PFS_EVERY", "2")
    status, calm = run(RANKS, [build_c(["adopt.c"], "adopt", mpi=mpi), scratch / "calm", STEPS], scratch, mpi=mpi)
    assert status == 0 and not list(pools.iterdir()), calm
    status, killed = adopt(mpi, scratch, STEPS, DEATH, 2 * EVERY)
    assert status != 0, killed
    memory = list(pools.glob(OF_A_SPACE))
    # The level, and the copies that its ranks hold for each other.
    assert len(memory) == 2 and all(folder.stat().st_mode & 0o777 == 0o700 for folder in memory)
    if lost:
        for folder in memory:
            shutil.rmtree(folder)
    status, again = adopt(mpi, scratch, STEPS)
    # The fourth checkpoint, or the third. Without the memory the second, which was waited for, or the fourth if it had
    # got there, too.
    came = {"from step 40", "from step 20"} if lost else {"from step 40", "from step 30"}
    first = next(line for line in again.splitlines() if not line.startswith("mainstay: "))
    assert status == 0 and first in came, again
    assert again.splitlines()[-1] == calm.splitlines()[-1]
    # The job ends in order: no file stays in memory, and the newest revision is on the level that stays.
    assert not list(pools.iterdir())
    assert revisions(scratch / "space")[-1] >= 6


PROGRAM = """
import json, mainstay, numpy, os, pathlib, signal, sys, time
state = numpy.zeros(30_000)
with mainstay.open(sys.argv[1], memory="auto", memory_keep=2, disk=sys.argv[2], disk_every=2, pfs_every=3, keep=2) as session:
    session.protect("state", state)
    found = session.restore()
    print(found.revision if found else 0, state[7], flush=True)
    for step in range(int(state[7]) + 1, int(sys.argv[3]) + 1):
        state[:] = step
        session.checkpoint()
        session.wait()
    if len(sys.argv) > 4:
        # The content of the disk is reported within a second or so.
        told, deadline = pathlib.Path(sys.argv[1], "status"), time.monotonic() + 20
        def is_told():
            disk = json.loads(told.read_text())["levels"][1] if told.exists() else {"complete": []}
            return any(saved["revision"] == int(sys.argv[3]) for saved in disk["complete"])
        while not is_told() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_options_in_python(scratch, pools):
    def job(*arguments, program=PROGRAM):
        words = [sys.executable, "-c", program, scratch / "space", scratch / "disk", *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)

    killed = job(8, "killed")
    assert killed.returncode == -9 and killed.stdout == "0 0.0\n", killed
    assert revisions(next(pools.glob(OF_A_SPACE)))[-2:] == [7, 8]
    assert revisions(next((scratch / "disk").glob(OF_A_SPACE)))[-1] == 8
    assert revisions(scratch / "space")[-2:] == [3, 6]
    shutil.rmtree(next(pools.glob(OF_A_SPACE)))
    again = job(8, "killed")
    assert again.stdout == "8 8.0\n", again
    shutil.rmtree(scratch / "disk")
    shutil.rmtree(next(pools.glob(OF_A_SPACE)))
    refused = job(9)
    assert refused.returncode == 1 and refused.stdout == "", refused
    for word in (
        "OutOfSight",
        str(scratch / "disk"),
        "revision 8 is there",
        "revision 6 is left",
        'disk_lost = "accepted"',
    ):
        assert word in refused.stderr, refused
    again = job(9, program=PROGRAM.replace("keep=2)", 'keep=2, disk_lost="accepted")'))
    assert again.returncode == 0 and again.stdout == "6 6.0\n", again
    assert not list(pools.iterdir())
    assert job(9).stdout.endswith(" 9.0\n")


WRITTEN = """
import mainstay, numpy, sys
state = numpy.ones(1 << 17)
with mainstay.open(sys.argv[1], memory="auto", capture=sys.argv[2]) as session:
    session.protect("state", state)
    for step in range(3):
        state[::1024] = 2 + step
        session.checkpoint()
        session.wait()
        print(session.last_record().written_bytes)
"""


@pytest.mark.parametrize("capture", [*rarely("whole", "incremental", "snapshot"), "incremental-snapshot"])
def test_what_was_copied_into_memory_counts_as_written(scratch, pools, capture):
    """A copy into memory is no write, and `show` reported for an incremental revision that only its metadata was
    written."""
    words = [sys.executable, "-c", WRITTEN, scratch / "space", capture]
    job = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    assert job.returncode == 0, job
    first, *later = map(int, job.stdout.split())
    least = 1 << (19 if "incremental" in capture else 20)
    assert 1 << 20 <= first < 1.2 * (1 << 20), job.stdout
    assert all(least <= told < 1.2 * (1 << 20) for told in later), job.stdout


@pytest.mark.parametrize("language", ["c", *rarely("c++", "fortran", "python")])
def test_a_wait_for_one_level_leaves_the_others(language, mpi, scratch, pools):
    if language == "python" and mpi is not OPENMPI:
        pytest.skip("this Python has the mpi4py of Open MPI")
    build = {
        "c": lambda: build_c(["waits.c"], "waits", mpi=mpi),
        "c++": lambda: build_cxx("waits.cpp", "waits-cxx", mpi=mpi),
        "fortran": lambda: build_fortran(FORTRAN_SOURCES / "waits.f90", "waits-fortran", mpi),
        "python": lambda: build_python("waits.py", "waits-python"),
    }
    program, space, held = build[language](), scratch / "space", scratch / "held"
    shim = build_c(["inject.c"], "inject.so", "-shared", "-fPIC")
    # No write to the space returns while the program has the file `held` there.
    shim = {"LD_PRELOAD": shim, "INJECT": "write:hold", "INJECT_WHEN": held, "INJECT_SPACE": space}
    variables = [f"{name}={value}" for name, value in {**shim, "MAINSTAY_MEMORY": "auto"}.items()]
    status, told = run(RANKS, ["env", *variables, program, space, held], scratch, mpi=mpi)
    # It has ended itself, without a close.
    assert (status, revisions(space)[-1]) == (5, 2), told


@pytest.mark.campaign
def test_disks_that_are_gone_refuse_the_start(mpi, scratch, pools, monkeypatch):
    """The job went on from the revision of the space. It would have overwritten the data on the disks after their
    return."""
    monkeypatch.setenv("MAINSTAY_DISK", str(scratch / "disk"))
    monkeypatch.setenv("MAINSTAY_PFS_EVERY", "2")
    status, calm = run(RANKS, [build_c(["adopt.c"], "adopt", mpi=mpi), scratch / "calm", STEPS], scratch, mpi=mpi)
    assert status == 0, calm
    shutil.rmtree(scratch / "disk")
    # Three revisions: the disks have the last one, and the space the second.
    status, ended = adopt(mpi, scratch, 3 * EVERY)
    newest = revisions(next((scratch / "disk").glob(OF_A_SPACE)))[-1]
    left = revisions(scratch / "space")[-1]
    assert status == 0 and left < newest, ended
    (scratch / "disk").rename(scratch / "away")
    for _ in range(2):
        status, refused = adopt(mpi, scratch, STEPS)
        assert status != 0 and "out of reach" in refused and "from step" not in refused, refused
        missed = f"revision {newest} is there, and revision {left} is left"
        for word in (str(scratch / "disk"), missed, "MAINSTAY_DISK_LOST=accepted"):
            assert word in refused, refused
    shutil.rmtree(scratch / "disk", ignore_errors=True)
    shutil.copytree(scratch / "away", scratch / "disk", symlinks=True)
    status, again = adopt(mpi, scratch, 3 * EVERY)
    assert status == 0 and f"from step {newest * EVERY}" in again, again
    shutil.rmtree(scratch / "disk")
    monkeypatch.setenv("MAINSTAY_DISK_LOST", "accepted")
    status, again = adopt(mpi, scratch, STEPS)
    assert status == 0 and f"from step {left * EVERY}" in again, again
    assert again.splitlines()[-1] == calm.splitlines()[-1]


def test_a_space_that_was_made_anew_gets_nothing_of_the_old(scratch, pools):
    def job():
        words = [sys.executable, "-c", PROGRAM, scratch / "space", scratch / "disk", "3", "killed"]
        return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)

    assert job().stdout == "0 0.0\n"
    assert job().stdout == "3 3.0\n"
    shutil.rmtree(scratch / "space")
    assert job().stdout == "0 0.0\n"
    assert len(list(pools.glob(OF_A_SPACE))) == 2


def test_what_levels_cannot_be(scratch, pools):
    def refused(**levels):
        program = f"import mainstay\nmainstay.open({str(scratch / 'space')!r}, **{levels!r})"
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S).stderr

    assert "memory" in refused(memory="here")
    assert "disk" in refused(disk="auto")
    given = pools / "given"
    given.mkdir()
    assert refused(memory=str(given)) == ""
    (made,) = given.glob(OF_A_SPACE)
    made.chmod(0o755)
    assert "not a directory of this user alone" in refused(memory=str(given))
    shutil.rmtree(made)
    made.symlink_to(scratch)
    assert "not a directory of this user alone" in refused(memory=str(given))
    made.unlink()
    for said in ["", 'id = "../../x"\nlineage = 1\n', 'id = "' + 32 * "0" + '"\nlineage = -1\n', 5000 * "x"]:
        for name in ("levels", "levels.copy"):
            (scratch / "space" / name).write_text(said)
        assert "does not name the levels of the space" in refused(memory=str(given)), said


def test_what_was_out_of_sight_is_older(scratch, pools):
    """The memory of a killed job is away when the next job begins from nothing, and comes back later."""

    def job(*arguments):
        program = PROGRAM.replace("disk=sys.argv[2], disk_every=2, pfs_every=3", "pfs_every=5")
        words = [sys.executable, "-c", program, scratch / "space", "-", *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)

    assert job(3, "killed").stdout == "0 0.0\n"
    (memory,) = pools.glob(OF_A_SPACE)
    memory.rename(pools / "away")
    assert job(6, "killed").stdout == "0 0.0\n"
    shutil.rmtree(memory)
    (pools / "away").rename(memory)
    assert job(6, "killed").stdout.endswith(" 5.0\n")


def test_close_leaves_what_it_cannot_save_elsewhere(scratch, pools):
    """Two ranks have saved. One process opens the space and closes it: it must not remove the newest data in memory,
    which is not its own."""
    program = """
import mainstay, numpy, os, signal, sys
from mpi4py import MPI
state = numpy.zeros(1000)
session = mainstay.open(sys.argv[1], MPI.COMM_WORLD, memory="auto", pfs_every=2)
session.protect("state", state)
session.checkpoint(); session.wait()
session.checkpoint(); session.wait()
session.checkpoint(); session.wait()
MPI.COMM_WORLD.Barrier()
os.kill(os.getpid(), signal.SIGKILL)
"""
    status, told = run(RANKS, [sys.executable, "-c", program, scratch / "space"], scratch)
    assert status != 0, told
    (memory,) = (folder for folder in pools.glob(OF_A_SPACE) if "copy" not in folder.name)
    assert revisions(memory)[-1] == 3
    alone = f"import mainstay\nmainstay.open({str(scratch / 'space')!r}, memory='auto').close()"
    done = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0 and "revision 3 stays in" in done.stderr, done
    assert revisions(memory)[-1] == 3
