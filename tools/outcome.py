"""The outcome of a part of `make test`, and the processor time of each file of tests beside its budget."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = ROOT / "tests" / "budgets.json"
UNBUDGETED_S = 5  # budget of a file that has none of its own, and the least that any file has
FACTOR = 2  # a file of tests fails where it takes so many times its budget
ENOUGH_FILES = 9  # their median tells how slow the machine is
WHY_LINES = 15  # of a failure's report, from its beginning and from its end


@dataclass
class Outcome:
    passed: int = 0
    failed: list = field(default_factory=list)  # names
    skipped: list = field(default_factory=list)  # names, with the reason
    repeated: list = field(default_factory=list)  # tests that ran again, as their launcher had crashed
    why: list = field(default_factory=list)  # reports of failures, shortened
    spent: dict = field(default_factory=dict)  # file of tests → processor seconds
    mpi_jobs: int = 0

    def add(self, other):
        self.passed += other.passed
        self.mpi_jobs += other.mpi_jobs
        for name in ("failed", "skipped", "repeated", "why"):
            getattr(self, name).extend(getattr(other, name))
        for file, seconds in other.spent.items():
            self.spent[file] = self.spent.get(file, 0) + seconds

    def require_tests(self, part, status):
        """A part that reports no failure, yet crashed or ran nothing, has failed all the same."""
        if not self.failed and (status != 0 or self.passed == 0):
            self.failed.append(f"{part}: {self.passed} tests passed, exit status {status}")
        return self


def shortened(lines):
    lines = list(lines)
    if len(lines) > 2 * WHY_LINES:
        lines[WHY_LINES:-WHY_LINES] = ["…"]
    return "\n".join(lines)


def budgets():
    return json.loads(BUDGETS.read_text())


def beyond_budget(spent, allowed):
    """The files that took more than twice their budget. On a slow machine they all take longer, so it is compared with the
    file in the middle, if there are enough files."""
    times = [spent[file] / budget for file, budget in allowed.items() if file in spent]
    slow = max(1, median(times)) if len(times) >= ENOUGH_FILES else 1
    for file, seconds in sorted(spent.items()):
        budget = max(UNBUDGETED_S, allowed.get(file, 0))
        if seconds > FACTOR * slow * budget:
            yield f"{file} took {seconds:.0f} s of processors, its budget is {budget} s: make it cheaper, or see tests/budgets.json"


def write_budgets(spent):
    """Writes the budgets: the processor seconds of this run, for files that take more than the common budget."""
    named = {file: round(seconds) for file, seconds in sorted(spent.items()) if round(seconds) > UNBUDGETED_S}
    BUDGETS.write_text(json.dumps(named, indent=2) + "\n")
