"""Compiles the tests in Rust, and runs each file of them as a process of its own, to measure its processor time."""

import json
import os
import re
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mpi import PROFILE, ROOT
from outcome import WHY_LINES, Outcome, budgets

LIMIT_S = 1200  # for one file
PROCESSES = 2
THREADS = 2
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;", re.MULTILINE)
FAILURE = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$", re.MULTILINE)
PANIC = re.compile(r"thread '([\w:]+)'.* panicked at ")  # the thread of a test has its name
NO_DOCTESTS = ["--lib", "--bins", "--tests"]  # there are none, and looking for them takes a while


# With these variables, cargo compiles our own crates by clippy: a lint is an error. A run of clippy by itself would check all
# libraries and our own crates once more. What clippy compiles is right, and not optimised: releases are compiled without it.
# Files for a later compilation of a part would take a fifth of the time.
LINTING = {
    "RUSTC_WORKSPACE_WRAPPER": "clippy-driver",
    "CLIPPY_ARGS": "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    "CARGO_INCREMENTAL": "0",
}


def cargo(command, *words):
    return ["cargo", command, f"--profile={PROFILE}", "--locked", *words]


def compiled():
    """The programs of tests, each with its name and the folder of its package. Cargo prints its progress.

    The simulation and the fuzz targets are compiled by themselves, as they take the engine with other features.
    """
    programs = []
    for package in ([], ["--package", "mainstay-simulate", "--package", "mainstay-fuzz"]):
        made = compiled_of(package)
        if made is None:
            return None
        programs.extend(made)
    return programs


def compiled_of(package):
    command = cargo("test", *package, "--no-run", *NO_DOCTESTS, "--message-format=json-render-diagnostics")
    made = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        return None
    programs = []
    for line in made.stdout.splitlines():
        one = json.loads(line)
        if one["reason"] == "compiler-artifact" and one["executable"] and one["profile"]["test"]:
            folder = Path(one["manifest_path"]).parent
            target = Path(one["target"]["src_path"])
            root = target.parent if target.name in ("lib.rs", "main.rs") else target.with_suffix("")
            programs.append((one["executable"], root.relative_to(ROOT), folder))
    return programs


def files_of(programs):
    """The tests by file: (program, folder of its package, name of the file, names of its tests)."""
    for program, root, folder in programs:
        listed = subprocess.run(
            [program, "--list", "--format", "terse"], capture_output=True, text=True, cwd=folder, check=True
        )
        files = {}
        for test in re.findall(r"^(\S+): test$", listed.stdout, re.MULTILINE):
            file = str(root / test.split("::")[0]) if "::" in test else str(root)
            files.setdefault(file, []).append(test)
        for file, tests in files.items():
            yield program, folder, file, tests


def run_file(program, folder, file, tests, campaign):
    """Runs the tests of a file. Their output is printed in one piece at the end."""
    # Without capture: a test that crashes the process would take the reports of the others with it.
    words = [
        program,
        "--exact",
        "--nocapture",
        f"--test-threads={THREADS}",
        *(["--include-ignored"] if campaign else []),
        *tests,
    ]
    environment = os.environ | {"CARGO_MANIFEST_DIR": str(folder)} | ({"CAMPAIGN": "1"} if campaign else {})
    with tempfile.TemporaryFile(mode="w+", errors="replace") as output:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
        limit = threading.Timer(LIMIT_S * (30 if campaign else 1), process.kill)
        limit.start()
        _, status, usage = os.wait4(process.pid, 0)
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    return judged(file, text, process.returncode, usage)


def judged(file, text, status, usage):
    outcome = Outcome(spent={file: usage.ru_utime + usage.ru_stime})
    outcome.passed = sum(int(passed) for passed, _ in RESULT.findall(text))
    failed = FAILURE.findall(text)
    outcome.failed = [f"{file} {test}" for test in failed]
    lines = text.splitlines()
    for at, found in enumerate(map(PANIC.search, lines)):
        if found and found[1] in failed:
            outcome.why.append("\n".join(lines[at : at + 2 * WHY_LINES]))
    if status != 0 and not failed:
        outcome.failed.append(f"{file}: exit status {status}")
        outcome.why.append("\n".join([file, *lines[-2 * WHY_LINES :]]))
    if outcome.failed:
        print(text, flush=True)
    return outcome


def run(programs, campaign=False):
    total, allowed = Outcome(), budgets()
    # The longest files first, so that none is left alone at the end.
    files = sorted(files_of(programs), key=lambda one: -allowed.get(one[2], 0))
    with ThreadPoolExecutor(PROCESSES) as pool:
        for outcome in pool.map(lambda one: run_file(*one, campaign), files):
            total.add(outcome)
    return total.require_tests("tests in Rust", 0)
