"""Runs tests of one module of a suite for `unittest`, as one rank, and notes each result in a file of this rank.

unittests.py FOLDER MODULE RESULTS only|without NAMES: the module in FOLDER, and a file with the names of tests.
"""

import os
import sys
import unittest
from pathlib import Path

from mpi4py import MPI

FOLDER, MODULE, RESULTS, CHOICE, NAMES = sys.argv[1:]


class Notes(unittest.TestResult):
    """A line for each beginning and each result. They survive the end of the rank in a test."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def note(self, word, test):
        os.write(self.file, f"{word} {test.id()}\n".encode())

    def startTest(self, test):
        super().startTest(test)
        self.note("begins", test)

    def addSuccess(self, test):
        self.note("passes", test)

    def addFailure(self, test, err):
        self.note("fails", test)

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err:
            self.note("fails", test)

    def addSkip(self, test, reason):
        self.note("skips", test)


def flat(suite):
    for test in suite:
        yield from flat(test) if isinstance(test, unittest.TestSuite) else [test]


def main():
    sys.path.insert(0, FOLDER)
    sys.dont_write_bytecode = True
    names = set(Path(NAMES).read_text().split())
    tests = flat(unittest.defaultTestLoader.loadTestsFromName(MODULE))
    chosen = [test for test in tests if (test.id() in names) == (CHOICE == "only")]
    file = os.open(Path(RESULTS, str(MPI.COMM_WORLD.rank)), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    unittest.TestSuite(chosen).run(Notes(file))
    os.write(file, b"ends\n")


if __name__ == "__main__":
    main()
