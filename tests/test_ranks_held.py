"""Suites of others run as ranks in slots: mpi4py's tests under CPython, and MPICH's. A test that passed once passes for good:
`tests/ranks/held` has the lists."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest
from held import ADDS, FOLDER, Held, job
from limits import LIMIT_S
from mpi import OPENMPI

pytestmark = pytest.mark.campaign

# A test that does not pass may wait for ever.
OF_OTHERS_S = 60
# A rank has one thread.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
MPICH_SUITE = "MAINSTAY_MPICH_TESTS"
PARTS_OF_MPICH = (
    *"attr coll comm datatype errhan group info init io pt2pt topo".split(),
    *(f"f77/{part}" for part in "attr coll comm datatype ext info init io profile pt2pt topo".split()),
    *(f"f08/{part}" for part in "attr coll comm datatype ext info init io misc pt2pt subarray timer topo".split()),
    *("f90/misc", "f90/timer"),
)
# Tests that need more are left out.
MEMORY_GB = 4


@pytest.fixture(scope="module")
def of_mpi4py(tmp_path_factory):
    """The folder with the tests of the installed mpi4py, from the package of its source."""
    folder = tmp_path_factory.mktemp("mpi4py")
    package = f"mpi4py=={version('mpi4py')}"
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mpi4py", package]
    subprocess.run([*fetch, "--dest", folder], check=True, timeout=LIMIT_S)
    (archive,) = folder.glob("mpi4py-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    yield next(folder.glob("mpi4py-*/test"))
    shutil.rmtree(folder)


def noted(results, ranks):
    """The tests that began, those that passed on all ranks, and whether all ranks came to the end."""
    words = [(results / str(rank)).read_text().split() for rank in range(ranks) if (results / str(rank)).exists()]
    pairs = [list(zip(of[::2], of[1::2])) for of in words]
    passed = [
        {name for word, name in of if word == "passes"} - {name for word, name in of if word == "fails"} for of in pairs
    ]
    ended = len(words) == ranks and all(of[-1:] == ["ends"] for of in words)
    began = {name for of in pairs for word, name in of if word == "begins"}
    return began, set.intersection(*passed) if len(words) == ranks else set(), ended


class Module:
    """A module of the suite, in jobs of some ranks. After a test that ends a job, the other tests run in another job."""

    def __init__(self, suite, name, ranks, scratch):
        self.suite, self.name, self.ranks, self.scratch = suite, name, ranks, scratch

    def job(self, choice, names, limit_s):
        results, file = self.scratch / "results", self.scratch / "names"
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir()
        file.write_text("\n".join(names))
        words = [FOLDER / "unittests.py", self.suite, self.name, results, choice, file]
        job([OPENMPI.command("python"), *words], self.ranks, self.scratch, limit_s, **ONE_THREAD)
        return noted(results, self.ranks)

    def passes(self, names):
        """The tests that pass of those named."""
        done, passed, ended = set(), set(), not names
        while not ended:
            began, now, ended = self.job("only", names - done, LIMIT_S)
            done, passed, ended = done | began, passed | now, ended or not began
        return passed

    def others_pass(self, names):
        """The tests that pass of all but those named. One that fails may disturb the others, so those that are to be added
        to the list run alone, too."""
        done, passed, ended = set(), set(), False
        while not ended:
            began, now, ended = self.job("without", names | done, OF_OTHERS_S)
            done, passed, ended = done | began, passed | now, ended or not began
        for name in sorted(done - passed) if ADDS else []:
            passed |= self.job("only", {name}, OF_OTHERS_S)[1]
        return passed


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_mpi4py_passes_its_own_tests(of_mpi4py, scratch, ranks):
    held, passed = Held("mpi4py"), set()
    names = {name for name, of in held.cases if of == ranks}
    for name in sorted(path.stem for path in of_mpi4py.glob("test_*.py")):
        module = Module(of_mpi4py, name, ranks, scratch)
        of_module = {test for test in names if test.startswith(f"{name}.")}
        passed |= module.passes(of_module) | module.others_pass(of_module)
    held.meet({(name, ranks) for name in passed}, lambda _, of: of == ranks)


def listed(folder):
    """The tests of a folder of MPICH's suite: program, number of ranks, arguments, and the result to expect."""
    for file in (folder / "testlist.in", folder / "testlist"):
        for line in file.read_text().splitlines() if file.exists() else []:
            words = shlex.split(line, comments=True)
            if not words or words[0].startswith("@") or not (folder / words[0]).exists():
                continue
            settings = [word.partition("=")[::2] for word in words[2:]]
            if any(name == "env" for name, _ in settings) or float(dict(settings).get("mem", 0)) > MEMORY_GB:
                continue
            arguments = [value for name, value in settings if name == "arg"]
            yield words[0], int(words[1]), arguments, dict(settings).get("resultTest")


def program_passes(folder, test, scratch):
    program, ranks, arguments, expected = test
    status, output = job([folder / program, *arguments], ranks, scratch, OF_OTHERS_S)
    if expected == "TestErrFatal":
        return status not in (0, None)
    return status == 0 and re.search(r"^\s*No [Ee]rrors\s*$", output, re.M) is not None


@pytest.mark.skipif(MPICH_SUITE not in os.environ, reason=f"{MPICH_SUITE} does not name a built test/mpi of MPICH")
@pytest.mark.parametrize("part", PARTS_OF_MPICH)
def test_mpich_passes_its_own_tests(scratch, part):
    """The programs of the suite are there, compiled by `mainstay mpicc` and `mainstay mpifort`."""
    folder = Path(os.environ[MPICH_SUITE], part)
    passed = {
        (" ".join([f"{part}/{test[0]}", *test[2]]), test[1])
        for test in listed(folder)
        if program_passes(folder, test, scratch)
    }
    Held("mpich").meet(passed, lambda name, _: name.split()[0].rpartition("/")[0] == part)
