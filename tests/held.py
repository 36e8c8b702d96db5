"""Lists of the tests in other projects' suites that pass with ranks in slots. A list only grows.

A line of a list is a test's name and the numbers of ranks with which it passes: `NAME: 1 2 4`. With MAINSTAY_HELD=add in the
environment, a run adds the tests that pass for the first time.
"""

import os
import time
from pathlib import Path

from limits import LIMIT_S
from slots import CACHE
from supervised import Run

FOLDER = Path(__file__).resolve().parent / "ranks" / "held"
ADDS = os.environ.get("MAINSTAY_HELD") == "add"


class Held:
    """The cases of a list: pairs of a test's name and the number of ranks."""

    def __init__(self, name):
        self.path = FOLDER / f"{name}.txt"
        self.cases = self.read()

    def read(self):
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        pairs = (line.rpartition(": ")[::2] for line in lines)
        return {(name, int(ranks)) for name, several in pairs for ranks in several.split()}

    def check(self, passed, has_run):
        """Fails if a case of the list has run and not passed. Prints, or adds, the cases that pass for the first time."""
        lost = sorted(case for case in self.cases - passed if has_run(*case))
        new = passed - self.cases
        if new:
            print(f"{self.path.name}: these cases pass for the first time:", *sorted(new), sep="\n  ")
        if new and ADDS:
            self.add(new)
        assert not lost, f"{self.path.name}: these cases do not pass any more: {lost}"

    def add(self, cases):
        several = {}
        for name, ranks in sorted(self.read() | cases):
            several.setdefault(name, []).append(str(ranks))
        self.path.write_text("".join(f"{name}: {' '.join(ranks)}\n" for name, ranks in several.items()))


def job(command, ranks, folder, limit_s=LIMIT_S, **variables):
    """Runs the command in slots; returns its exit status and its output. The status is None if it took too long."""
    words = ["--restarts", 0, "--virtual", ranks, "--space", folder / "space", "--fresh", "--", *command]
    with Run(*words, cwd=folder, env={**os.environ, **CACHE, **variables}) as running:
        running.deadline = time.monotonic() + limit_s
        try:
            return running.end()
        except TimeoutError:
            return None, "\n".join(running.output)
