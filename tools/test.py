"""Runs every test of the project; the last line counts them: N passed, N failed.

What is compiled is compiled first, as that takes all processors. The tests in Rust then run beside those of real jobs,
most of which wait; what they print comes once those are through.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = []
FAILED = []  # told once more at the end, where whoever sees only that finds it
WHY = []  # what failures said, told just before that
WHY_LINES = 15  # from the beginning and from the end of each
TIMES = []  # of each step
FILES = []  # of each file of tests in Python, summed over its tests: seconds of processors, and until they ended
WORKERS = 4  # most tests wait, for a disk or for a time to pass
CARGO_TEST = ["cargo", "test", "--release", "--locked"]
# As released: macros and what they stand on are compiled for that already.
CLIPPY = ["cargo", "clippy", "--release", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]
PANIC = re.compile(r"thread '([\w:]+::\w+)'.* panicked at ")  # a test's thread has its name
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;")
FAILURE = re.compile(r"test (\S+)( - should panic)? \.\.\. FAILED$")
CRASH = re.compile(r"process didn't exit successfully: `([^` ]+).*\((signal: .*)\)$")


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
    FAILED.extend([" ".join(command)] * (status != 0))
    return int(status == 0), int(status != 0)


def cargo_test():
    """Without `--workspace`: with the features of what was built before, of which nothing is compiled again."""
    command = [*CARGO_TEST, "--no-fail-fast"]
    # What a test says is told at once: at the end, a crash of the process would have lost why tests before it failed.
    run = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"RUST_TEST_NOCAPTURE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines = run.stdout.splitlines()
    counts = [RESULT.match(line) for line in lines]
    passed, failed = (sum(int(count[which]) for count in counts if count) for which in (1, 2))
    tests = [found[1] for found in map(FAILURE.search, lines) if found]
    for at, found in enumerate(map(PANIC.search, lines)):
        if found and found[1] in tests:
            WHY.append("\n".join(lines[at : at + 2 * WHY_LINES]))
    FAILED.extend(tests)
    FAILED.extend(": ".join(found.groups()) for found in map(CRASH.search, lines) if found)
    return run.stdout, settle(passed, failed, run.returncode)


def pytest():
    with tempfile.TemporaryDirectory(prefix="mainstay-test-") as folder:
        report = Path(folder) / "report.xml"
        side_by_side = ["-n", str(WORKERS), "--dist", "loadscope"]
        command = [sys.executable, "-m", "pytest", "tests", "-rsR", "--durations=20", *side_by_side, f"--junit-xml={report}"]
        say(command)
        status = subprocess.run(command, cwd=ROOT).returncode
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    outcomes = {}  # a test that fails and whose cleanup fails too is reported twice
    for case in cases:
        outcomes.setdefault((case.get("classname"), case.get("name")), set()).update(child.tag for child in case)
    spent = {}
    for case in cases:
        of_file = spent.setdefault(case.get("classname").rpartition(".")[2], [0, 0])
        of_file[0] += sum(float(one.get("value")) for one in case.iter("property") if one.get("name") == "processor_s")
        of_file[1] += float(case.get("time") or 0)
    spent["all"] = [sum(times) for times in zip(*spent.values())]
    FILES.extend(f"{busy:5.0f} s of {time:5.0f} s  {name}" for name, (busy, time) in sorted(spent.items(), key=lambda one: -one[1][0]))
    names = [".".join(case) for case, tags in outcomes.items() if tags & {"failure", "error"}]
    FAILED.extend(names)
    for case in cases:
        for said in (child.text or "" for child in case if child.tag in ("failure", "error")):
            # The lines of the error itself, where pytest marks them.
            lines = [line for line in said.splitlines() if line.startswith("E ")] or said.splitlines()
            if len(lines) > 2 * WHY_LINES:
                lines[WHY_LINES:-WHY_LINES] = ["…"]
            WHY.append("\n".join([case.get("name"), *lines]))
    failed = len(names)
    skipped = sum(tags.isdisjoint({"failure", "error"}) and "skipped" in tags for tags in outcomes.values())
    SKIPPED.extend(f"{case.get('name')}: {skip.get('message')}" for case in cases for skip in case.iter("skipped"))
    return settle(len(outcomes) - failed - skipped, failed, status)


def timed(step, *arguments):
    began = time.monotonic()
    outcome = step(*arguments)
    name = " ".join(arguments) or step.__name__
    TIMES.append(f"{time.monotonic() - began:5.0f} s  {name}")
    return outcome


def main():
    steps = [
        timed(check, "cargo", "fmt", "--all", "--check"),
        timed(check, *CLIPPY),
        timed(check, *CARGO_TEST, "--no-run"),
    ]
    with ThreadPoolExecutor() as beside:
        in_rust = beside.submit(timed, cargo_test)
        steps.append(timed(pytest))
    say([*CARGO_TEST, "(beside the last)"])
    told, counts = in_rust.result()
    print(told, flush=True)
    steps.append(counts)
    passed, failed = map(sum, zip(*steps))
    for test in SKIPPED:
        print(f"NOT RUN: {test}")
    print("\ntests in Python, summed by file: time of processors, of time until they ended", *FILES, sep="\n")
    print("", *TIMES, sep="\n")
    for said in WHY:
        print(f"\n{said}")
    for test in FAILED:
        print(f"FAILED: {test}")
    print(f"\n{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
