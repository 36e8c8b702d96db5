"""The wheel brings all that a program in Python or C needs, into any environment."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import maturin
import pytest
from jobs import run
from limits import LIMIT_S
from mpi import ROOT
from programs import SOURCES

RANKS = 2
PROGRAM = """
import array, mainstay
field = array.array("d", [0.0] * 1000)
with mainstay.open("space") as session:
    session.protect("field", field)
    print(session.restore())
    field[0] += 1
    session.checkpoint()
print(field[0])
"""


@pytest.fixture(scope="module")
def wheel():
    wheels = list((ROOT / "dist").glob("mainstay-*.whl"))
    assert len(wheels) == 1, f"`make wheel` makes one wheel in dist: {wheels}"
    return wheels[0]


@pytest.fixture(scope="module")
def home(wheel):
    """A fresh environment in which the wheel is installed, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        said([sys.executable, "-m", "venv", "--without-pip", home])
        pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--quiet", "--no-index"]
        said([*pip, "--disable-pip-version-check", wheel])
        yield home


def said(command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_python_program_needs_nothing_else(home, scratch):
    for expected in ("None\n1.0\n", "<mainstay.Restored: revision 1, 0 passed over>\n2.0\n"):
        assert said([home / "bin" / "python", "-I", "-c", PROGRAM], cwd=scratch) == expected
    assert re.search(r"\b2\b", said([home / "bin" / "mainstay", "ls", scratch / "space"]))
    code = "import mainstay, mpi4py"
    assert subprocess.run([home / "bin" / "python", "-c", code], stderr=subprocess.DEVNULL).returncode == 1


def test_a_c_program_builds_against_it(home, mpi, scratch):
    flags = said([home / "bin" / "mainstay", "config", "--cflags", "--libs"]).split()
    program = scratch / "adopt"
    said([mpi.command("mpicc"), SOURCES / "adopt.c", *flags, "-o", program])
    assert re.search(rf"libmainstay\.so\.0 => {re.escape(str(home))}/lib/libmainstay\.so\.0 ", said(["ldd", program]))
    status, output = run(RANKS, [program, scratch / "space", 20], scratch, mpi=mpi)
    assert status == 0 and "sum" in output, output


def test_it_is_laid_out_as_an_installation_is(wheel, scratch):
    """The same files, but for the links and the archive, which a wheel is better without."""
    prefix = scratch / "usr"
    said(["make", "--no-print-directory", "install", f"PREFIX={prefix}"], cwd=ROOT)
    installed = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    names = zipfile.ZipFile(wheel).namelist()
    brought = {re.sub(r"^[^/]*\.data/(data/|scripts(?=/))", lambda m: "bin" if "scripts" in m[1] else "", name)
               for name in names if ".data/" in name}  # fmt: skip
    assert brought == {name for name in installed if not re.search(r"libmainstay\.(a|so\.\d+\.)", name)}


def test_what_pkg_config_is_told_moves_with_it(home):
    text = (home / "lib" / "pkgconfig" / "mainstay.pc").read_text()
    assert "prefix=${pcfiledir}/../..\n" in text and str(ROOT) not in text


def test_it_names_no_folder_of_the_build(wheel):
    """Where it was built is nobody's business, and would be wrong elsewhere."""
    files = zipfile.ZipFile(wheel)
    assert not [name for name in files.namelist() if str(ROOT).encode() in files.read(name)]


def test_the_types_travel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"mainstay/py.typed", "mainstay/_engine.pyi", "mainstay/__init__.py"} <= set(names)


def clone(folder):
    """The repository as it would be cloned with what is in it now, times included: cargo finds nothing changed."""
    for name in said(["git", "ls-files", "-z"], cwd=ROOT).split("\0"):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def installs_in(home, folder, *options, **more):
    said([sys.executable, "-m", "venv", home])
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install"]
    said([*pip, *options, folder / "python"], **more)


def test_pip_install_of_a_fresh_clone(scratch):
    """It ended with "No such data directory": the wheel's metadata is asked for before anything is laid out.

    What cargo has built is shared; the rest is as it comes.
    """
    fresh = clone(scratch / "clone")
    (fresh / "target").mkdir()
    (fresh / "target" / "release").symlink_to(ROOT / "target" / "release")
    built = (ROOT / "target" / "release" / "mainstay").stat()
    # The build backend of this environment, in place of another download of it.
    (scratch / "packages").mkdir()
    for path in Path(maturin.__file__).parent, *Path(maturin.__file__).parents[1].glob("maturin-*.dist-info"):
        (scratch / "packages" / path.name).symlink_to(path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(scratch / "packages"), "PATH": path}
    installs_in(scratch / "home", fresh, "--no-build-isolation", "--no-deps", env=environment)
    assert said([scratch / "home" / "bin" / "python", "-I", "-c", PROGRAM], cwd=scratch) == "None\n1.0\n"
    said([scratch / "home" / "bin" / "mainstay", "ls", scratch / "space"])
    again = (ROOT / "target" / "release" / "mainstay").stat()
    assert (again.st_ino, again.st_mtime_ns) == (built.st_ino, built.st_mtime_ns), "it was all built again"


@pytest.mark.campaign
def test_pip_install_of_a_fresh_clone_all_by_itself(scratch):
    """As a user would, with pip's isolated build and nothing built before."""
    installs_in(scratch / "home", clone(scratch / "clone"))
    assert said([scratch / "home" / "bin" / "python", "-I", "-c", PROGRAM], cwd=scratch) == "None\n1.0\n"
