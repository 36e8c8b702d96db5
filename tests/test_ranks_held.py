"""The test suites of mpi4py and MPICH run as ranks in slots. A test that has passed once must always pass: `tests/ranks/held`
lists these tests."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import pytest
from held import ADDS, FOLDER, Held, job
from limits import LIMIT_S
from mpi import OPENMPI

pytestmark = pytest.mark.campaign

# A test outside the lists may wait for ever.
UNLISTED_S = 60
# A rank has one thread.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
MPICH_SUITE = "MAINSTAY_MPICH_TESTS"
PARTS_OF_MPICH = (
    *"attr coll comm datatype errhan group info init io pt2pt topo".split(),
    *(f"f77/{part}" for part in "attr coll comm datatype ext info init io profile pt2pt topo".split()),
    *(f"f08/{part}" for part in "attr coll comm datatype ext info init io misc pt2pt subarray timer topo".split()),
    *("f90/misc", "f90/timer"),
)
MEMORY_GB = 4  # tests that need more do not run


@pytest.fixture(scope="module")
def mpi4py_tests(tmp_path_factory):
    """The folder with the tests of the installed version of mpi4py, from its source package."""
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
    files = [path for path in (results / str(rank) for rank in range(ranks)) if path.exists()]
    notes = [path.read_text().split() for path in files]
    tests = [defaultdict(set) for _ in notes]
    for of_rank, words in zip(tests, notes):
        for word, name in zip(words[::2], words[1::2]):
            of_rank[word].add(name)
    are_all = len(notes) == ranks
    began = set().union(*(of_rank["begins"] for of_rank in tests))
    passed = set.intersection(*(of_rank["passes"] - of_rank["fails"] for of_rank in tests)) if are_all else set()
    return began, passed, are_all and all(words[-1:] == ["ends"] for words in notes)


class Module:
    """A module of the suite, in jobs of `ranks` ranks. If a test ends its job, the remaining tests run in a new job."""

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

    def listed_that_pass(self, names):
        done, passed, ended = set(), set(), not names
        while not ended:
            began, now, ended = self.job("only", names - done, LIMIT_S)
            done, passed, ended = done | began, passed | now, ended or not began
        return passed

    def others_that_pass(self, names):
        """All tests that pass, except `names`. A test may fail because of another one. So it runs again alone before the
        list is extended."""
        done, passed, ended = set(), set(), False
        while not ended:
            began, now, ended = self.job("without", names | done, UNLISTED_S)
            done, passed, ended = done | began, passed | now, ended or not began
        for name in sorted(done - passed) if ADDS else []:
            passed |= self.job("only", {name}, UNLISTED_S)[1]
        return passed


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_mpi4py_passes_its_own_tests(mpi4py_tests, scratch, ranks):
    held, passed = Held("mpi4py"), set()
    names = {name for name, of in held.cases if of == ranks}
    for name in sorted(path.stem for path in mpi4py_tests.glob("test_*.py")):
        module = Module(mpi4py_tests, name, ranks, scratch)
        of_module = {test for test in names if test.startswith(f"{name}.")}
        passed |= module.listed_that_pass(of_module) | module.others_that_pass(of_module)
    held.check({(name, ranks) for name in passed}, lambda _, of: of == ranks)


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
    status, output = job([folder / program, *arguments], ranks, scratch, UNLISTED_S)
    if expected == "TestErrFatal":
        return status not in (0, None)
    return status == 0 and re.search(r"^\s*No [Ee]rrors\s*$", output, re.M) is not None


@pytest.mark.skipif(MPICH_SUITE not in os.environ, reason=f"{MPICH_SUITE} does not name a built test/mpi of MPICH")
@pytest.mark.parametrize("part", PARTS_OF_MPICH)
def test_mpich_passes_its_own_tests(scratch, part):
    """The suite was compiled by `mainstay mpicc` and `mainstay mpifort` before."""
    folder = Path(os.environ[MPICH_SUITE], part)
    passed = {
        (" ".join([f"{part}/{test[0]}", *test[2]]), test[1])
        for test in listed(folder)
        if program_passes(folder, test, scratch)
    }
    Held("mpich").check(passed, lambda name, _: name.split()[0].rpartition("/")[0] == part)
