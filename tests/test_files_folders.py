"""Folders under `mainstay files`: programs list and remove them as without it."""

import os

import pytest
from protected import node_in

IMPORTS = "import errno, shutil, subprocess\n"


@pytest.fixture
def node(scratch):
    with node_in(scratch / "run") as node:
        yield node


def test_a_listing_shows_each_closed_file_and_nothing_of_mainstays(node):
    """Programs list a folder to find the newest restart file, or old ones to remove."""
    done = node.files(
        IMPORTS
        + """
for number in range(5):
    put(f"restart.{number}", "x" * 10**6)
    assert sorted(os.listdir()) == [f"restart.{one}" for one in range(number + 1)], os.listdir()
assert [entry.name for entry in os.scandir() if "." in entry.name and entry.is_dir()] == []
print(subprocess.run(["ls", "-A"], capture_output=True, text=True, check=True).stdout)
print(subprocess.run(["find", ".", "-type", "f"], capture_output=True, text=True, check=True).stdout)
"""
    )
    listed = [f"restart.{number}" for number in range(5)]
    assert sorted(done.stdout.split()) == sorted(listed + [f"./{name}" for name in listed])


def test_a_pattern_of_the_c_library_finds_each_closed_file(node):
    """glob of the C library reads folders past its own opendir and readdir."""
    with node.faulty_helper("any:hold:0") as held:
        done = node.files(
            IMPORTS
            + f"""
import ctypes, threading
library, found = ctypes.CDLL(None), (ctypes.c_size_t * 32)()
os.mkdir("run")
for path in "restart.1", "run/restart.2", "plain":
    put(path, "x")
until = threading.Timer(0.2, os.unlink, [{str(held.notes / "hold")!r}])
until.start()
for pattern in "*", "*/rest*":
    assert library.glob(pattern.encode(), 0, None, found) == 0, pattern
    names = ctypes.cast(found[1], ctypes.POINTER(ctypes.c_char_p))
    print([names[at].decode() for at in range(found[0])])
until.join()
assert library.glob(b"absent*", 0, None, found) == 3
"""
        )
    assert done.stdout == "['plain', 'restart.1', 'run']\n['run/restart.2']\n"


def test_a_folder_is_removed_with_its_files(node):
    """The program removes it right after the close, as tests with temporary folders do."""
    node.files(
        IMPORTS
        + """
for number in range(20):
    os.makedirs("run/deep")
    put("run/restart.1", "x")
    put("run/deep/restart.2", "y")
    if number % 2:
        shutil.rmtree("run")
    else:
        subprocess.run(["rm", "-r", "run"], check=True)
    assert os.listdir() == [], os.listdir()
"""
    )
    assert {path.name for path in node.folder.iterdir()} <= {".mainstay"}


def test_a_folder_with_a_file_is_not_removed(node):
    """The file is open, closed, published, or not protected."""
    node.files(
        IMPORTS
        + """
def refused(number, path):
    try:
        os.rmdir(path)
    except OSError as error:
        assert error.errno == number, error
    else:
        raise SystemExit(f"{path} was removed")
os.mkdir("run")
with open("run/restart", "w") as file:
    file.write("x")
    refused(errno.ENOTEMPTY, "run")
refused(errno.ENOTDIR, "run/restart")
refused(errno.ENOTEMPTY, "run")
os.unlink("run/restart")
put("run/other", "x")
refused(errno.ENOTEMPTY, "run")
os.unlink("run/other")
os.rmdir("run")
"""
    )
    assert not (node.folder / "run").exists()


def test_a_folder_replaces_one_without_files(node):
    node.files(
        IMPORTS
        + """
for name in ("old", "new", "full"):
    os.mkdir(name)
    put(f"{name}/restart", name)
os.unlink("old/restart")
os.rename("new", "old")
try:
    os.rename("old", "full")
except OSError as error:
    assert error.errno == errno.ENOTEMPTY, error
with open("old/restart") as file:
    assert file.read() == "new"
"""
    )
    assert (node.folder / "old" / "restart").read_text() == "new" and not (node.folder / "new").exists()
    assert (node.folder / "full" / "restart").read_text() == "full"


def test_a_new_file_has_the_group_of_its_folder(node):
    """If the folder asks for that, as folders of a project do."""
    os.chown(node.folder, -1, 1234)
    os.chmod(node.folder, 0o2775)
    node.files("put('restart', 'x'); assert os.stat('restart').st_gid == 1234")
    assert os.stat(node.folder / "restart").st_gid == 1234


def test_no_folder_or_link_takes_the_name_of_a_file(node):
    """The file is closed, and may not have its name yet."""
    node.files(
        IMPORTS
        + """
for make in (os.mkdir, lambda path: os.symlink("x", path), os.mkfifo):
    for name in ("restart.1", "restart.2"):
        put(name, "x")
        try:
            make(name)
        except FileExistsError:
            os.unlink(name)
        else:
            raise SystemExit(f"{name} was replaced")
os.mkdir("restart.3")
"""
    )
    assert sorted(path.name for path in node.folder.iterdir()) == [".mainstay", "restart.3"]
