"""One user's spaces are out of reach of another, and planted links lead no job astray."""

import os
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy
import pytest
from command import MAINSTAY
from jobs import run
from library import LIBRARY
from limits import LIMIT_S
from mpi import OPENMPI, SHARED_MEMORY
from programs import build_c, build_faults

NOBODY, OTHER = 65534, 65533
RANKS = 2
STEPS = 30


@pytest.fixture(scope="module")
def adopt():
    return build_c(["adopt.c"], "adopt")


@pytest.fixture
def home(scratch, adopt):
    """A folder of another user, that a third user may pass through but not read."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a job as another user")
    for path in (OPENMPI.command("mpiexec"), adopt, LIBRARY):
        if as_user(NOBODY, "test", "-r", path).returncode != 0:
            pytest.skip(f"{path} lies where other users cannot read it")
    scratch.chmod(0o711)
    home = scratch / "home"
    home.mkdir(mode=0o711)
    os.chown(home, NOBODY, NOBODY)
    return home


def other(user):
    """Arguments that make a process one of `user`."""
    return {"user": user, "group": user, "extra_groups": []}


def as_user(user, *command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S, **other(user))


def modes(folder):
    return {path.name: oct(path.stat().st_mode & 0o7777) for path in folder.iterdir()}


def test_a_space_is_its_users_alone(adopt, home):
    space = home / "space"
    status, output = run(RANKS, [adopt, space, STEPS], home, **other(NOBODY))
    assert status == 0 and "sum" in output, output

    assert oct(space.stat().st_mode & 0o7777) == "0o700"
    assert len(modes(space)) >= 2 and set(modes(space).values()) == {"0o600"}, modes(space)
    assert {path.stat().st_uid for path in [space, *space.iterdir()]} == {NOBODY}
    for command in (["ls", space], *(["wc", "-c", path] for path in space.iterdir())):
        assert "Permission denied" in as_user(OTHER, *command).stderr
        assert as_user(NOBODY, *command).returncode == 0


def test_a_space_of_another_user_is_refused(adopt, home):
    space = home / "space"
    status, output = run(RANKS, [adopt, space, STEPS], home, **other(NOBODY))
    assert status == 0, output
    before = {path.name: path.read_bytes() for path in space.iterdir()}

    folder = home / "of-the-other"  # where Open MPI keeps its own files
    folder.mkdir()
    os.chown(folder, OTHER, OTHER)
    status, output = run(RANKS, [adopt, space, STEPS], folder, **other(OTHER))
    assert status != 0 and "sum" not in output
    # The launcher's output may have a space in front of it.
    told = [line for line in map(str.strip, output.splitlines()) if line.startswith("adopt: ")]
    assert told and all(str(space) in line and "Permission denied" in line for line in told), output
    assert before == {path.name: path.read_bytes() for path in space.iterdir()}


def test_planted_links_are_not_followed(adopt, scratch):
    """A link in place of the lock is moved aside; a link in place of a layout is a damaged file."""
    precious, space = scratch / "precious", scratch / "space"
    precious.write_text("precious")
    space.mkdir()
    (space / "lock").symlink_to(precious)
    (space / "levels").symlink_to(scratch / "made")
    status, output = run(RANKS, [adopt, space, STEPS], scratch)
    assert status == 0 and precious.read_text() == "precious" and not (scratch / "made").exists(), output
    assert not (space / "lock").is_symlink()

    (space / "layout-1.mainstay").symlink_to(precious)
    status, output = run(RANKS, [adopt, space, STEPS], scratch)
    assert status != 0 and "sum" not in output
    # The launcher's output may have a space in front of it.
    told = [line for line in map(str.strip, output.splitlines()) if line.startswith("adopt: ")]
    assert told and all(f"{space}/layout-1.mainstay: it is a symbolic link" in line for line in told), output
    assert precious.read_text() == "precious"


# Commands for a space and a folder of the caller: those that only look, and those that would change the space.
HOLDS = ["hold {}", "view {} --hdf5 {mine}/held.h5"]
LOOKS = ["ls {}", "show {} --table", "verify {}", "export {} {mine}/files", "view {} --hdf5 {mine}/copy.h5 --copy",
         "view {} --hdf5 {mine}/view.h5 --no-hold"]  # fmt: skip
CHANGES = ["reserve {} --ranks 1 --per-rank 1MiB", "grow {} --per-rank 4MiB", "prune {} --keep-last 1", *HOLDS]


def command(words, space, mine, user=OTHER, group=OTHER):
    words = [MAINSTAY, *words.format(space, mine=mine).split()]
    who = {"user": user, "group": user, "extra_groups": [group]}
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT_S, **who)


def of_the_other(home):
    """A folder of the other user's own."""
    mine = home / "mine"
    mine.mkdir()
    os.chown(mine, OTHER, OTHER)
    return mine


def all_denied(commands, space, mine, group=OTHER):
    """Neither the other user's files nor the caller's change."""
    before, made = snapshot(space), snapshot(mine)
    for words in commands:
        done = command(words, space, mine, group=group)
        assert done.returncode == 4 and not done.stdout, (words, done)
        told = done.stderr
        assert str(space) in told and "Permission denied" in told and "give this user the right" in told, (words, told)
    assert snapshot(space) == before and snapshot(mine) == made


def test_another_user_neither_looks_at_a_space_nor_changes_it(faults, home):
    space, mine = home / "space", of_the_other(home)
    made = as_user(NOBODY, faults, "--solo", space, "open", "save:1", "wait", "close")
    assert "= 0 close OK" in made.stdout, made
    all_denied([*LOOKS, *CHANGES], space, mine)
    read = as_user(OTHER, faults, "--solo", space, "read:1")
    assert "= 0 open IO" in read.stdout and "Permission denied" in read.stdout, read
    # No space is made in another user's folder either.
    done = command(CHANGES[0], home / "new", mine)
    assert done.returncode == 4 and "Permission denied" in done.stderr and not (home / "new").exists(), done
    for words in [*LOOKS, *CHANGES]:
        done = command(words, space, home, user=NOBODY)
        assert done.returncode == 0 or "grow" in done.stderr, (words, done)


def test_what_root_makes_in_a_users_space_is_that_users(faults, home):
    """Root gave a user's space more room, or went back in it, and locked the user out: the new files belonged to root
    alone, and the user's jobs and tools were refused."""
    space = home / "space"

    def job(*calls):
        words = [f"MAINSTAY_DISK={home}/disk", faults, "--solo", space, "open", *calls, "close"]
        done = as_user(NOBODY, "env", *words)
        assert "= 0 close OK" in done.stdout, done

    job("save:1", "wait", "save:2", "wait")
    for step, words in enumerate(["rollback {} --revision 1", "grow {} --per-rank 4MiB"], 2):
        done = command(words, space, home, user=0, group=0)
        assert done.returncode == 0, done
        assert {path.stat().st_uid for path in space.iterdir()} == {NOBODY}, words
        done = command("verify {}", space, home, user=NOBODY)
        assert done.returncode == 0, done
        job("restore", f"save:{step}", "wait")


def where_it_is_read_only(folder):
    """Words before a command that let it find the folder on a read-only file system."""
    read_only = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    private = ["unshare", "--mount", "sh", "-c", f'{read_only} && exec "$@"', "sh"]
    if subprocess.run([*private, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine mounts nothing")
    return private


def test_where_a_level_is_read_only_the_others_hold_and_release(faults, home):
    """The hold failed, but was in the space nevertheless; a release left the space's hold for good."""
    space, disk = home / "space", home / "disk"
    made = run(1, ["env", f"MAINSTAY_DISK={disk}", faults, space, "open", "save:1", "wait", "close"], home)
    assert made[0] == 0, made
    private = where_it_is_read_only(disk)

    def mainstay(*words, before=()):
        words = [*before, MAINSTAY, words[0], space, *words[1:]]
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT_S)

    held = mainstay("hold", before=private)
    assert held.returncode == 0 and held.stdout.endswith("on the level space\n"), held
    assert "the level disk does not hold it" in held.stderr and "Read-only file system" in held.stderr, held
    held = mainstay("hold")
    assert held.returncode == 0 and held.stdout.endswith("on the levels disk; space\n"), held

    released = mainstay("release", "--all", before=private)
    assert released.returncode == 4 and released.stdout == "revision 1 is released\n", released
    assert "Read-only file system" in released.stderr, released
    # The hold on the disk is left, and is removed once the disk can be written.
    assert mainstay("ls").stdout.count(" yes") == 1
    assert mainstay("release", "--all").returncode == 0
    assert mainstay("ls").stdout.count(" yes") == 0


def test_what_cannot_write_to_a_read_only_file_system_says_so(faults, home):
    """It reported a missing permission, and advised to give the user the right, which root had. A view did not name
    `--no-hold`, its way without writing."""
    space, mine = home / "space", of_the_other(home)
    made = run(1, [faults, space, "open", "save:1", "wait", "close"], home)
    assert made[0] == 0, made
    private = where_it_is_read_only(space)
    for words in [*HOLDS, "prune {} --keep-last 1", "rollback {} --revision 1"]:
        words = [*private, MAINSTAY, *words.format(space, mine=mine).split()]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 4 and "Read-only file system" in done.stderr, done
        assert ("--no-hold" in done.stderr) == ("view" in words), done


def test_a_space_that_its_owner_opens_to_a_group_is_read_by_it_and_no_more(faults, home, pools):
    """Also while a job is at work; it cannot ask the job for a hold."""
    space, mine = home / "space", of_the_other(home)
    with holding(faults, space, NOBODY):
        space.chmod(0o750)
        for path in space.glob("layout-*"):
            path.chmod(0o640)
        before = snapshot(space)
        all_denied([*LOOKS, *CHANGES], space, mine)
        for words in LOOKS:
            done = command(words, space, mine, group=NOBODY)
            assert done.returncode == 0, (words, done)
        [step] = (mine / "files").rglob("step.npy")
        assert numpy.load(step) == 1
        all_denied(HOLDS, space, mine, group=NOBODY)
    all_denied(CHANGES, space, mine, group=NOBODY)
    assert snapshot(space) == before


# Locks a file that it may read, reports that, and keeps the lock.
KEEP_LOCK = """
import fcntl, os, struct, sys, time
user = int(sys.argv[1])
os.setgroups([int(sys.argv[3])]), os.setresgid(user, user, user), os.setresuid(user, user, user)
lock = os.open(sys.argv[2], os.O_RDONLY)
fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 1 << 40, 0))
print("locked", flush=True)
time.sleep(60)
"""


def test_who_may_only_look_cannot_keep_a_job_from_starting(faults, home, pools):
    """The lock file could be read like the others, and locked by every user with read access."""
    space = home / "space"
    assert "= 0 close OK" in as_user(NOBODY, faults, "--solo", space, "open", "save:1", "wait", "close").stdout
    space.chmod(0o750)
    for path in space.iterdir():
        path.chmod(0o640)
    keep = [sys.executable, "-c", KEEP_LOCK, str(OTHER), space / "lock", str(NOBODY)]
    with subprocess.Popen(keep, stdout=subprocess.PIPE, text=True) as keeper:
        try:
            assert keeper.stdout.readline() == "locked\n"
            refused = as_user(NOBODY, faults, "--solo", space, "open")
            told = f"holds a read lock on {space}/lock; end it, and remove that permission (chmod 600 {space}/lock)"
            assert "= 0 open IN_USE" in refused.stdout and told in refused.stdout, refused
            listed = as_user(NOBODY, MAINSTAY, "ls", space, "--json")
            assert '"in_use": false' in listed.stdout, listed
        finally:
            keeper.kill()
    # A start removes the right by itself, and a look needs none.
    opened = as_user(NOBODY, faults, "--solo", space, "open", "restore", "holds:1", "close")
    assert "= 0 close OK" in opened.stdout, opened
    assert modes(space).pop("lock") == "0o600"
    keep = subprocess.run(keep, capture_output=True, text=True, timeout=LIMIT_S)
    assert "PermissionError" in keep.stderr and not keep.stdout, keep
    looked = command("ls {}", space, home, group=NOBODY)
    assert looked.returncode == 0 and "newest" in looked.stdout, looked


# Another user's attempts on a file of a pool, and their results.
TRY = """
import mmap, os, sys
user = int(sys.argv[1])  # may not even read this Python
os.setgroups([]), os.setresgid(user, user, user), os.setresuid(user, user, user)
def reads(path): open(path, "rb").read(1)
def maps(path): mmap.mmap(os.open(path, os.O_RDWR), 0)
def cuts(path): os.truncate(path, 0)
def removes(path): os.unlink(path)
def moves(path): os.rename(path, path + ".gone")
def opens_up(path): os.chmod(path, 0o666)
for path in sys.argv[2:]:
    for attempt in (reads, maps, cuts, removes, moves, opens_up):
        try:
            attempt(path)
            print(attempt.__name__, path)
        except OSError:
            pass
print("tried")
"""


@pytest.fixture
def pools(monkeypatch):
    """A directory that all users may write to, but where only the owner may remove a file, like /dev/shm."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="mainstay-test-") as folder:
        Path(folder).chmod(0o1777)
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", folder)
        # These tests read and copy complete pools; the file of a pool that grows as needed is as long as memory.
        monkeypatch.setenv("MAINSTAY_POOL_BYTES", "4MiB")
        yield Path(folder)


@pytest.fixture(scope="module")
def faults():
    return build_faults()


@contextmanager
def holding(faults, space, user):
    """A program of `user` that has the space open, and is killed at the end."""
    command = [faults, "--solo", space, "open", "save:1", "wait", "hold"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **other(user)) as program:
        assert any(line.startswith("= 0 hold OK") for line in program.stdout)
        try:
            yield
        finally:
            program.kill()


def snapshot(folder):
    return {
        path.name: (path.lstat().st_mode, path.read_bytes() if path.is_file() else None) for path in folder.iterdir()
    }


def test_a_pool_is_its_users_alone(faults, home, pools):
    with holding(faults, home / "space", NOBODY):
        files = list(pools.iterdir())
        assert len(files) == 2, "the pool and the record of its one rank"
        assert {(path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in files} == {(NOBODY, 0o600)}
        before = snapshot(pools)
        tried = subprocess.run(
            [sys.executable, "-c", TRY, str(OTHER), *files], capture_output=True, text=True, timeout=LIMIT_S
        )
        assert tried.stdout == "tried\n", tried
        # A program of that user opens a space of its own, and leaves the pool alone.
        theirs = home / "theirs"
        theirs.mkdir()
        os.chown(theirs, OTHER, OTHER)
        opened = as_user(OTHER, faults, "--solo", theirs / "space", "open", "save:1", "wait", "close")
        assert "= 0 close OK" in opened.stdout, opened
        assert snapshot(pools) == before
    # Nor does it touch the pool once its program is dead; the next program of its own user does.
    opened = as_user(OTHER, faults, "--solo", theirs / "space", "open", "restore", "close")
    assert "= 0 close OK" in opened.stdout and len(list(pools.iterdir())) == 2, opened
    opened = as_user(NOBODY, faults, "--solo", home / "space", "open", "restore", "holds:1", "close")
    assert "= 0 holds OK" in opened.stdout and not list(pools.iterdir()), opened


def test_planted_pools_are_not_believed_and_not_removed(faults, home, pools):
    precious = pools / "precious"
    precious.write_text("precious")
    precious.chmod(0o666)
    with holding(faults, home / "space", NOBODY):
        # A valid pool and a valid record, but with a wrong owner.
        for path in list(pools.iterdir()):
            if path != precious:
                planted = pools / path.name.replace(path.name[14:18], "5eed")
                planted.write_bytes(path.read_bytes())
                os.chown(planted, OTHER, OTHER)
                planted.chmod(0o666)
    for path in [*pools.glob("mainstay-pool-*")]:
        if path.stat().st_uid == NOBODY:
            path.unlink()
    for name in ("0" * 32, "0" * 32 + ".0", "1" * 32, "2" * 32 + ".7"):
        link = pools / f"mainstay-pool-{name}"
        link.symlink_to(precious)
        os.lchown(link, OTHER, OTHER)
    os.mkfifo(pools / f"mainstay-pool-{'3' * 32}", 0o666)
    before = snapshot(pools)
    assert len(before) == 8
    opened = as_user(NOBODY, faults, "--solo", home / "space", "open", "restore", "holds:1", "save:2", "wait", "close")
    assert "= 0 close OK" in opened.stdout and "= 0 holds OK" in opened.stdout, opened
    assert snapshot(pools) == before
