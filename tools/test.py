"""Runs the tests of the project. The last line counts them: N passed, N failed.

It sets up everything that the tests need, and compiles first, because that takes all processors. On the way it finds
lints. Then the tests in Rust run beside the tests with real jobs, which mostly wait. `make` lists the ways to call it.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import changed
import python_tests
import rust_tests
from mpi import ROOT
from outcome import Outcome, beyond_budget, budgets, write_budgets

CLIPPY = rust_tests.cargo("clippy", "--workspace", "--all-targets", "--", "-D", "warnings")
TIMES = []  # of each part


def check(*command):
    """Runs a command that is one test."""
    print("\n$ " + " ".join(command), flush=True)
    status = subprocess.run(command, cwd=ROOT).returncode
    return Outcome(passed=int(status == 0), failed=[" ".join(command)] * (status != 0))


def timed(name, step, *arguments):
    began, busy = time.monotonic(), processor_s()
    outcome = step(*arguments)
    TIMES.append(f"{time.monotonic() - began:5.0f} s, {processor_s() - busy:5.0f} s of processors  {name}")
    return outcome


def processor_s():
    """Processor seconds of the parts that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def make(*targets):
    """Makes independent targets of the Makefile. No test can run without them."""
    if subprocess.run(["make", "--no-print-directory", f"-j{len(targets)}", *targets], cwd=ROOT).returncode != 0:
        sys.exit(f"make {' '.join(targets)} failed")


def set_up():
    timed("packages", make, "check-tests")
    timed("library, command, environments", make, "build", "environments")
    timed("Python package", make, "python")


def format_and_words():
    total = timed("format", check, sys.executable, "tools/format.py", "--check")
    total.add(timed("words", check, sys.executable, "tools/words.py"))
    return total


def all_tests(campaign=False):
    """Runs Rust beside Python. The campaign runs one after the other, because its jobs take all memory."""
    programs = timed("tests in Rust, compiled", rust_tests.compiled)
    if programs is None:
        return Outcome(failed=["the tests in Rust do not compile"])
    total = Outcome()
    with ThreadPoolExecutor(1 if campaign else 2) as beside:
        for part in [beside.submit(python_tests.run, campaign), beside.submit(rust_tests.run, programs, campaign)]:
            total.add(part.result())
    return total


def hostile_bytes():
    """Inputs for the readers of foreign bytes, led by the code that they reach."""
    seconds = os.environ.get("MAINSTAY_CAMPAIGN_SECONDS", "3600")
    return check(sys.executable, "tools/fuzz.py", "--seconds", seconds)


def only(name):
    """The tests of one name: a file of tests in Python, a test in it, or a part of the names of tests in Rust."""
    if name.startswith("tests/"):
        set_up()
        return check(str(python_tests.PYTHON), "-m", "pytest", *python_tests.ALL, name)
    return check(*rust_tests.cargo("test", *rust_tests.NO_DOCTESTS, "--", "--include-ignored", name))


def tell(total):
    """Prints the times, the failures with their reasons, and the count."""
    allowed = budgets()
    if total.spent:
        print("\nProcessor time of each file of tests, and its budget:")
        for file, seconds in sorted(total.spent.items(), key=lambda one: -one[1]):
            if seconds >= 1:
                print(f"{seconds:5.0f} s of {allowed.get(file, '-'):>4}  {file}")
        print(f"\n{total.mpi_jobs} jobs of an MPI; {sum(total.spent.values()):.0f} s of processors in tests")
    print(*TIMES, sep="\n")
    for kind, names in (("NOT RUN", total.skipped), ("REPEATED", total.repeated)):
        for name in names:
            print(f"{kind}: {name}")
    for said in total.why:
        print(f"\n{said}")
    for name in total.failed:
        print(f"FAILED: {name}")
    print(f"\n{total.passed} passed, {len(total.failed)} failed")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--campaign", action="store_true", help="also the long tests, with no budget")
    options.add_argument("--check", action="store_true", help="format, lints, and unit tests of the change")
    options.add_argument("--only", metavar="NAME", help="the tests of that name")
    options.add_argument(
        "--budgets", action="store_true", help="write tests/budgets.json anew, from the times of this run"
    )
    options = options.parse_args()
    if options.only:
        total = timed(options.only, only, options.only)
    elif options.check:
        total = format_and_words()
        total.add(timed("lints", check, *CLIPPY))
        for command in changed.commands():
            total.add(timed("unit tests", check, *command))
    else:
        if not options.campaign:
            os.environ.update(rust_tests.LINTING)
        set_up()
        total = format_and_words()
        if options.campaign:
            total.add(timed("lints", check, *CLIPPY))
        total.add(timed("tests, and the compilation above", all_tests, options.campaign))
        if options.campaign:
            total.add(timed("hostile bytes", hostile_bytes))
    if options.budgets:
        write_budgets(total.spent)
    if not options.campaign:
        total.failed.extend(beyond_budget(total.spent, budgets()))
    tell(total)
    sys.exit(bool(total.failed))


if __name__ == "__main__":
    main()
