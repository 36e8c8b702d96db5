"""Runs the tests in Python, several side by side."""

import os
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager
from pathlib import Path

from mpi import ROOT
from outcome import Outcome, shortened

PYTHON = ROOT / ".venv" / "bin" / "python"
ALL = ["-m", "campaign or not campaign"]
WORKERS = 4  # most tests wait, for a disk or for a job


def run(campaign=False):
    with tempfile.TemporaryDirectory(prefix="mainstay-test-") as folder:
        report = Path(folder) / "report.xml"
        side_by_side = ["-n", str(WORKERS), "--dist", "loadscope"]
        command = [str(PYTHON), "-m", "pytest", "tests", "-q", "-rsR", *side_by_side, f"--junit-xml={report}"]
        if campaign:
            command += ALL
        print("\n$ " + " ".join(command), flush=True)
        with open_mpis_memory() as environment:
            status = subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    return judged(cases).require_tests("tests in Python", status)


@contextmanager
def open_mpis_memory():
    """A folder for the memory that ranks of Open MPI share, which a killed job leaves. Other users' jobs use it, too."""
    with tempfile.TemporaryDirectory(prefix="openmpi-of-tests-", dir="/dev/shm") as folder:
        os.chmod(folder, 0o1777)
        yield {"OMPI_MCA_btl_sm_backing_directory": folder}


def judged(cases):
    outcome = Outcome()
    results = {}  # a test that fails and whose cleanup fails too is reported twice
    for case in cases:
        name = f"{case.get('classname')}.{case.get('name')}"
        results.setdefault(name, set()).update(child.tag for child in case)
        file = "tests/" + case.get("classname").rpartition("tests.")[2].replace(".", "/") + ".py"
        # A test that ran again counts once.
        outcome.spent[file] = outcome.spent.get(file, 0) + sum(numbers(case, "processor_s")[-1:])
        outcome.mpi_jobs += int(number(case, "mpi_jobs"))
        if (runs := int(max(numbers(case, "runs"), default=1))) > 1:  # each run has said its number
            outcome.repeated.append(f"{name} ran {runs} times, as MPI crashed by itself")
        for child in case:
            if child.tag == "skipped":
                outcome.skipped.append(f"{name}: {child.get('message')}")
            elif child.tag in ("failure", "error"):
                said = (child.text or "").splitlines()
                # The lines of the error itself, where pytest marks them.
                outcome.why.append(shortened([name, *([line for line in said if line.startswith("E ")] or said)]))
    outcome.failed = [name for name, tags in results.items() if tags & {"failure", "error"}]
    outcome.passed = sum(tags.isdisjoint({"failure", "error", "skipped"}) for tags in results.values())
    return outcome


def number(case, name):
    return sum(numbers(case, name))


def numbers(case, name):
    """The output of each run of the test."""
    return [float(one.get("value")) for one in case.iter("property") if one.get("name") == name]
