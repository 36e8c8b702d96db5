"""Tests of other projects that read and write files have the same results with `mainstay files` as without.

MAINSTAY_NETCDF4_TESTS names the folder `test` of netCDF4's sources, and MAINSTAY_JUDGES a Python that has netCDF4.
"""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from protected import node_in

pytestmark = pytest.mark.campaign
LIMIT_S = 1200
JUDGES, NETCDF4 = (os.environ.get(name) for name in ("MAINSTAY_JUDGES", "MAINSTAY_NETCDF4_TESTS"))
CPYTHON = (
    "array bufio bz2 dbm dbm_dumb fcntl file filecmp fileinput fileio genericpath glob gzip io lzma mailbox mmap os pathlib"
    " pickle posix posixpath shelve shutil stat tarfile tempfile univnewlines zipfile"
).split()
PYTEST = "-m pytest -q -p no:cacheprovider --junit-xml results.xml".split()
NUMPY = [
    "lib/tests/test_io.py",
    "lib/tests/test_format.py",
    "lib/tests/test__datasource.py",
    "_core/tests/test_memmap.py",
]
# The names of tests that end differently, each with the reason.
OPEN = "removes a folder in which it still writes a file: that is open, is not listed, and the folder cannot be removed"
DIFFER = {
    "test_tempfile.TestTemporaryDirectory.test_del_on_collection_ignore_errors": OPEN,
    "test_tempfile.TestTemporaryDirectory.test_del_on_shutdown_ignore_errors": OPEN,
    "test_tempfile.TestTemporaryDirectory.test_explict_cleanup_ignore_errors": OPEN,
    "test_os.ExtendedAttributeTests.test_fds": "writes the file anew, and expects the attributes of the one before",
}


def numpy():
    import numpy

    # NumPy's own settings of pytest need more packages.
    return [sys.executable, *PYTEST, "--noconftest", *(Path(numpy.__file__).parent / path for path in NUMPY)]


def netcdf4():
    if not (JUDGES and NETCDF4):
        pytest.skip("MAINSTAY_JUDGES and MAINSTAY_NETCDF4_TESTS name no netCDF4 with its tests")
    return [JUDGES, *PYTEST, "--rootdir", NETCDF4, NETCDF4]


SUITES = {
    f"cpython-{name}": [sys.executable, "-m", "test", "--junit-xml", "results.xml", f"test_{name}"] for name in CPYTHON
}
SUITES |= {"h5py": [sys.executable, *PYTEST, "--pyargs", "h5py.tests"], "numpy": numpy, "netcdf4": netcdf4}


def results(folder):
    """The outcome of each test, by its name."""
    found = {}
    for case in ElementTree.parse(folder / "results.xml").getroot().iter("testcase"):
        kinds = {part.tag for part in case} & {"failure", "error", "skipped"}
        found[f"{case.get('classname')}.{case.get('name')}"] = " ".join(sorted(kinds)) or "passed"
    return found


@pytest.mark.parametrize("suite", SUITES)
def test_the_results_are_the_same(scratch, suite):
    """`mainstay files` protects all files that the tests write."""
    words = SUITES[suite]() if callable(SUITES[suite]) else SUITES[suite]
    folders = [scratch / name for name in ("plain", "front")]
    for folder in folders:
        (folder / "tmp").mkdir(parents=True)
    plain, front = folders
    variables = {"TMPDIR": str(plain / "tmp")}
    subprocess.run(list(map(str, words)), cwd=plain, env=os.environ | variables, timeout=LIMIT_S, capture_output=True)
    with node_in(scratch / "node") as node:
        shown = node.words(list(map(str, words)), match=(f"{front}/tmp/*",))
        variables = node.variables | {"TMPDIR": str(front / "tmp")}
        ran = subprocess.run(shown, cwd=front, env=variables, timeout=LIMIT_S, capture_output=True, text=True)
    expected, found = results(plain), results(front)
    other = {name: (end, found.get(name)) for name, end in expected.items() if found.get(name) != end}
    print(f"{suite}: {len(expected)} tests, {len(other)} end differently")
    assert "passed" in found.values(), ran.stdout + ran.stderr
    assert {name for name in other if not name.endswith(tuple(DIFFER))} == set(), (other, ran.stdout + ran.stderr)
