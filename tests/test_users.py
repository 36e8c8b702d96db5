"""One user's spaces are out of reach of another, and nobody's planted links lead a job astray."""

import os
import subprocess

import pytest
from jobs import run
from library import LIBRARY
from mpi import OPENMPI
from programs import build_c

NOBODY, OTHER = 65534, 65533
RANKS = 2
STEPS = 30


@pytest.fixture(scope="module")
def adopt():
    return build_c(["adopt.c"], "adopt")


@pytest.fixture
def home(scratch, adopt):
    """A folder of another user, that a third may pass but not read."""
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
    """What makes a process one of `user`."""
    return {"user": user, "group": user, "extra_groups": []}


def as_user(user, *command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, **other(user))


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
    told = [line for line in output.splitlines() if line.startswith("adopt: ")]
    assert told and all(str(space) in line and "Permission denied" in line for line in told), output
    assert before == {path.name: path.read_bytes() for path in space.iterdir()}


@pytest.mark.parametrize("planted", ["lock", "layout-1.mainstay"])
def test_planted_links_are_not_followed(adopt, scratch, planted):
    precious = scratch / "precious"
    precious.write_text("precious")
    space = scratch / "space"
    space.mkdir()
    (space / planted).symlink_to(precious)

    status, output = run(RANKS, [adopt, space, STEPS], scratch)
    assert status != 0 and "sum" not in output
    told = [line for line in output.splitlines() if line.startswith("adopt: ")]
    assert told and all(f"{space}/{planted}" in line and "symbolic links" in line for line in told), output
    assert precious.read_text() == "precious" and (space / planted).is_symlink()


def test_a_planted_link_to_nowhere_makes_no_file(adopt, scratch):
    space = scratch / "space"
    space.mkdir()
    (space / "lock").symlink_to(scratch / "made")
    status, output = run(RANKS, [adopt, space, STEPS], scratch)
    assert status != 0 and not (scratch / "made").exists(), output
