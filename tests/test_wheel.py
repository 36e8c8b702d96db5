"""The wheel brings everything that a program in Python or C needs, into any environment, and so does the source
package.

`make python` makes the wheel for this machine, `make wheel` the one for others, which is looked at here where it was made.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import maturin
import needs
import pytest
from jobs import run
from limits import LIMIT_S
from mpi import ROOT
from programs import SOURCES

pytestmark = pytest.mark.campaign  # it makes environments of its own

RANKS = 2
GLIBC = (2, 28)
BUILD_LIMIT_S = 6 * LIMIT_S  # pip compiles all of Mainstay
CRATES = [
    "Cargo.toml",
    "Cargo.lock",
    "format/src",
    "engine/src",
    "objects/src",
    "ranks/src",
    "capi",
    "cli/src",
    "python",
]
# In glibc itself since 2.33. Before, each program had its own copy, from libc_nonshared.a.
ONCE_LINKED_IN = {f"{name}{bits}" for name in ("stat", "fstat", "lstat", "fstatat") for bits in ("", "64")}
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


def only(folder, made_by):
    wheels = list((ROOT / folder).glob("mainstay_checkpoint-*.whl"))
    assert len(wheels) == 1, f"`{made_by}` makes one wheel in {folder}: {wheels}"
    return wheels[0]


@pytest.fixture(scope="module")
def for_others():
    """The wheel of `make wheel`, if it was made from the present files."""
    if not (ROOT / "dist").exists():
        pytest.skip("`make wheel` was not run")
    wheel = only("dist", "make wheel")
    sources = said(["git", "ls-files", "-z", *CRATES], cwd=ROOT).split("\0")
    if any(
        (ROOT / name).stat().st_mtime > wheel.stat().st_mtime for name in sources if name and (ROOT / name).exists()
    ):
        pytest.skip("`make wheel` was run before what is here now")
    return wheel


@pytest.fixture(scope="module", params=["make python", "make wheel"])
def wheel(request):
    return (
        request.getfixturevalue("for_others") if request.param == "make wheel" else only("target/python", "make python")
    )


@pytest.fixture(scope="module")
def home(wheel):
    """A fresh environment with the wheel and no other package."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        said([sys.executable, "-m", "venv", "--without-pip", home])
        pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--quiet", "--no-index"]
        said([*pip, "--disable-pip-version-check", wheel])
        yield home


def said(command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BUILD_LIMIT_S, **more)
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
    """The same files, without the links and the archive, which a wheel does not need."""
    prefix = scratch / "usr"
    said(["make", "--no-print-directory", "install", f"PREFIX={prefix}"], cwd=ROOT)
    installed = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    names = zipfile.ZipFile(wheel).namelist()
    brought = {re.sub(r"^[^/]*\.data/(data/|scripts(?=/))", lambda m: "bin" if "scripts" in m[1] else "", name)
               for name in names if ".data/" in name}  # fmt: skip
    assert brought == {name for name in installed if not re.search(r"libmainstay\.(a|so\.\d+\.)", name)}


def test_it_needs_no_newer_system_than_its_name_says(for_others):
    machine = os.uname().machine
    assert for_others.name.endswith(f"-cp310-abi3-manylinux_2_{GLIBC[1]}_{machine}.whl")
    assert (needs.promised(for_others), needs.excess(for_others)) == (GLIBC, ([], 3))


def test_a_wheel_that_needs_a_newer_system_is_refused(wheel, scratch):
    """The wheel under the name of one for older systems. For example, glibc 2.5 has no `statx`."""
    renamed = scratch / re.sub(r"-(manylinux|linux)\w+\.whl", "-manylinux_2_5_x86_64.whl", wheel.name)
    renamed.symlink_to(wheel)
    lines, files = needs.excess(renamed)
    assert files == 3 and len(lines) == 3 and all(" needs glibc 2." in line for line in lines), lines
    tool = subprocess.run([sys.executable, ROOT / "tools" / "needs.py", renamed], capture_output=True, text=True)
    assert tool.returncode == 1 and "libmainstay.so.0 needs glibc 2." in tool.stderr


def versions_of(library, which):
    """By name, the glibc versions of a library's symbols, for symbols that readelf describes by `which`."""
    told = said(["readelf", "--wide", "--dyn-syms", library], env={**os.environ, "LC_ALL": "C"})
    found = {}
    for name, version in re.findall(rf"{which} (\w+)@+GLIBC_([\d.]+)", told):
        found.setdefault(name, set()).add(tuple(map(int, version.split("."))))
    return found


def test_what_is_built_here_calls_nothing_that_older_systems_lack():
    """A link against this machine's glibc takes its newest versions. Older versions that also work exist, too."""
    with open("/proc/self/maps") as maps:
        ctypes.CDLL("libm.so.6")
        libraries = {line.split()[-1] for line in maps if re.search(r"/lib[cm]\.so\.6$", line)}
    assert len(libraries) == 2, libraries
    there = [versions_of(library, r"(?:GLOBAL|WEAK) +DEFAULT +(?!UND)\S+") for library in libraries]
    for file in ("libmainstay.so", "mainstay"):
        # Symbols that are called only if they exist are weak.
        taken = versions_of(ROOT / "target" / "release" / file, "GLOBAL +DEFAULT +UND")
        assert len(taken) > 50, f"{file}: few symbols are taken of glibc, if these are all: {taken}"
        newer = {name for name, versions in taken.items() if max(versions) > GLIBC} - ONCE_LINKED_IN
        lacking = {name for name in newer if not any(min(of.get(name, [(9,)])) <= GLIBC for of in there)}
        assert not lacking, f"{file} calls functions that glibc {GLIBC} lacks, so `make wheel` would fail"


def test_all_tell_one_version(wheel, home):
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    major, minor, patch = version.split(".")
    assert wheel.name.startswith(f"mainstay_checkpoint-{version}-")
    assert said([home / "bin" / "mainstay", "--version"]) == f"mainstay {version}\n"
    told = "import mainstay; from importlib.metadata import version; print(mainstay.__version__, version('mainstay-checkpoint'))"
    assert said([home / "bin" / "python", "-I", "-c", told]) == f"{version} {version}\n"
    header = (home / "include" / "mainstay.h").read_text()
    assert f'#define MAINSTAY_VERSION "{version}"\n' in header
    assert f"#define MAINSTAY_VERSION_NUMBER ({major} * 10000 + {minor} * 100 + {patch})\n" in header
    assert f"\nVersion: {version}\n" in (home / "lib" / "pkgconfig" / "mainstay.pc").read_text()
    assert (
        f"set(PACKAGE_VERSION {version})\n"
        in (home / "lib" / "cmake" / "mainstay" / "mainstay-config-version.cmake").read_text()
    )
    dynamic = said(
        ["readelf", "--dynamic", home / "lib" / f"libmainstay.so.{major}"], env={**os.environ, "LC_ALL": "C"}
    )
    assert f"[libmainstay.so.{major}]" in dynamic
    crates = [*ROOT.glob("*/Cargo.toml")]
    assert len(crates) == 5 and all("\nversion.workspace = true\n" in path.read_text() for path in crates)


def test_what_pkg_config_is_told_moves_with_it(home):
    text = (home / "lib" / "pkgconfig" / "mainstay.pc").read_text()
    assert "prefix=${pcfiledir}/../..\n" in text and str(ROOT) not in text


def test_it_names_no_folder_of_the_build(wheel):
    """The path of the build is private, and would be wrong on other machines."""
    files = zipfile.ZipFile(wheel)
    assert not [name for name in files.namelist() if str(ROOT).encode() in files.read(name)]


def test_the_types_travel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"mainstay/py.typed", "mainstay/_engine.pyi", "mainstay/__init__.py"} <= set(names)


def clone(folder):
    """The repository as a clone with its present content, times included: cargo finds no change."""
    for name in said(["git", "ls-files", "-z"], cwd=ROOT).split("\0"):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def installs_in(home, folder, *options, **more):
    said([sys.executable, "-m", "venv", home])
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install"]
    said([*pip, *options, folder], **more)


def test_pip_install_of_the_source_package(scratch):
    """It is the repository as git has it, and builds without git.

    In a fresh clone it ended with "No such data directory": pip asks for the wheel's metadata before any file is
    prepared. Cargo's build is shared; the rest is new.
    """
    said([Path(sys.executable).parent / "maturin", "sdist", "--out", scratch], cwd=ROOT)
    (package,) = scratch.glob("mainstay_checkpoint-*.tar.gz")
    with tarfile.open(package) as archive:
        archive.extractall(scratch, filter="tar")
    (fresh,) = (path for path in scratch.glob("mainstay_checkpoint-*") if path.is_dir())
    assert "\nName: mainstay-checkpoint\n" in (fresh / "PKG-INFO").read_text() and not (fresh / ".git").exists()
    (fresh / "target").mkdir()
    (fresh / "target" / "release").symlink_to(ROOT / "target" / "release")
    built = (ROOT / "target" / "release" / "mainstay").stat()
    # The build backend of this environment, in place of another download.
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
    """As a user would, with pip's isolated build and no earlier build. Only cargo's downloads from its registry are
    reused."""
    installs_in(scratch / "home", clone(scratch / "clone"))
    assert said([scratch / "home" / "bin" / "python", "-I", "-c", PROGRAM], cwd=scratch) == "None\n1.0\n"
