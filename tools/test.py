"""Runs every test of the project; the last line counts them: N passed, N failed."""

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = []
WORKERS = 4  # most tests wait, for a disk or for a time to pass
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;")


def say(command):
    print("\n$ " + " ".join(command), flush=True)


def settle(passed, failed, status):
    """A step that reports no failure, yet crashed or ran nothing, has failed all the same."""
    if failed == 0 and (status != 0 or passed == 0):
        print(f"this step counts as failed: {passed} tests passed, exit status {status}", flush=True)
        failed = 1
    return passed, failed


def check(*command):
    """A command that is one test."""
    say(command)
    status = subprocess.run(command, cwd=ROOT).returncode
    return int(status == 0), int(status != 0)


def cargo_test(*which):
    command = ["cargo", "test", "--release", "--locked", "--no-fail-fast", *which]
    say(command)
    passed = failed = 0
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as run:
        for line in run.stdout:
            print(line, end="", flush=True)
            if match := RESULT.match(line):
                passed += int(match[1])
                failed += int(match[2])
    return settle(passed, failed, run.returncode)


def pytest():
    with tempfile.TemporaryDirectory(prefix="mainstay-test-") as folder:
        report = Path(folder) / "report.xml"
        side_by_side = ["-n", str(WORKERS), "--dist", "loadgroup"]
        command = [sys.executable, "-m", "pytest", "tests", "-rs", *side_by_side, f"--junit-xml={report}"]
        say(command)
        status = subprocess.run(command, cwd=ROOT).returncode
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    outcomes = {}  # a test that fails and whose cleanup fails too is reported twice
    for case in cases:
        outcomes.setdefault((case.get("classname"), case.get("name")), set()).update(child.tag for child in case)
    failed = sum(bool(tags & {"failure", "error"}) for tags in outcomes.values())
    skipped = sum(tags.isdisjoint({"failure", "error"}) and "skipped" in tags for tags in outcomes.values())
    SKIPPED.extend(f"{case.get('name')}: {skip.get('message')}" for case in cases for skip in case.iter("skipped"))
    return settle(len(outcomes) - failed - skipped, failed, status)


def main():
    steps = [
        check("cargo", "fmt", "--all", "--check"),
        check("cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"),
        cargo_test("--workspace"),
        # Wrong variants of the commit protocol: the crash tests must catch each.
        cargo_test("-p", "mainstay-engine", "--features", "mutants", "--test", "mutants"),
        pytest(),
    ]
    passed, failed = map(sum, zip(*steps))
    for test in SKIPPED:
        print(f"NOT RUN: {test}")
    print(f"\n{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
