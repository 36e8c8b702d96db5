"""find_package(mainstay): projects in C, C++, and Fortran build and run, even after Mainstay was moved."""

import shutil
import subprocess
from pathlib import Path

import pytest
from jobs import comes_back
from test_install import LIMIT_S, installed  # noqa: F401  a fixture

pytestmark = pytest.mark.campaign  # it takes CMake

PROJECTS = Path(__file__).resolve().parent / "cmake"


def cmake(*words, cwd=None):
    command = ["cmake", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S)


def configure(project, folder, prefix, *more):
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DSOURCES={PROJECTS.parent}", "-DCMAKE_BUILD_TYPE=Release", *more]
    return cmake("-S", project, "-B", folder, *options)


def compilers(mpi):
    return [f"-DMPI_{language}_COMPILER={mpi.command(name)}" for language, name in [("C", "mpicc"), ("CXX", "mpicxx")]]


def built(project, folder, prefix, *more):
    done = configure(project, folder, prefix, *more)
    assert done.returncode == 0, done.stdout + done.stderr
    done = cmake("--build", folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("language", ["c", "cxx", "fortran"])
def test_a_project_builds_and_comes_back(installed, mpi, scratch, language):  # noqa: F811
    folder = scratch / "build"
    built(PROJECTS / language, folder, installed, *compilers(mpi))
    comes_back(folder / "adopt", scratch, mpi)
    if language == "c":
        assert subprocess.run([folder / "solo"], cwd=scratch, timeout=LIMIT_S).returncode == 0
        assert "libmainstay" not in subprocess.check_output(["ldd", folder / "solo"], text=True)


def test_a_wheels_folder_has_no_links(installed, mpi, scratch):  # noqa: F811
    """There the library has its soname as its name, and a text file for the linker replaces a link."""
    prefix = scratch / "wheel"
    shutil.copytree(installed, prefix, symlinks=True)
    library = prefix / "lib" / "libmainstay.so.0"
    content = library.read_bytes()
    for path in (prefix / "lib").glob("libmainstay.*"):
        path.unlink()
    library.write_bytes(content)
    (prefix / "lib" / "libmainstay.so").write_text("INPUT(libmainstay.so.0)\n")
    built(PROJECTS / "cxx", scratch / "build", prefix, *compilers(mpi))
    comes_back(scratch / "build" / "adopt", scratch, mpi)


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("find_package(mainstay 0.1)", None),
        ("find_package(mainstay 0.1.0 EXACT)", None),
        ("find_package(mainstay 0.1.7 REQUIRED)", "compatible"),
        ("find_package(mainstay 0.2 REQUIRED)", "compatible"),
        ("find_package(mainstay 1.0 REQUIRED)", "compatible"),
        ("find_package(mainstay REQUIRED COMPONENTS fortran)", "mainstay has no fortran here"),
        ("find_package(mainstay REQUIRED COMPONENTS cobol)", "mainstay has no cobol here"),
    ],
)
def test_what_is_not_there_is_said(installed, scratch, package, words):  # noqa: F811
    project = scratch / "project"
    project.mkdir()
    text = f"cmake_minimum_required(VERSION 3.15)\nproject(app C)\n{package}\n"
    text += 'if(NOT mainstay_FOUND)\n  message(FATAL_ERROR "not found")\nendif()\n'
    (project / "CMakeLists.txt").write_text(text)
    done = configure(project, scratch / "build", installed)
    assert (done.returncode == 0) == (words is None) and (words or "") in done.stderr, done.stdout + done.stderr
