"""The stage of the fault table, tests/faults.toml: runs the program that makes calls, and checks its results."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from limits import LIMIT_S
from mpi import OPENMPI

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

LINE = re.compile(r"^= (\d+) (\S+) (\S+) (.*)$", re.M)
LANGUAGES = ("c", "python")
ROWS = {row["name"]: row for row in tomllib.loads((Path(__file__).parents[1] / "faults.toml").read_text())["row"]}
SCENARIOS = {}
# Calls with memory or names from the program. Each language passes them in its own way.
GIVEN = ("protect", "unprotect", "settled", "move", "follow")


def scenario(function):
    """Stages the row with the function's name."""
    SCENARIOS[function.__name__] = function
    return function


@dataclass
class Said:
    rank: int
    call: str
    status: str
    text: str


def ranks_of(row, language):
    """The number of ranks of the scenario in this language; 0 if it cannot be staged."""
    return row["c"] if language == "c" else row.get("python", row["c"])


def cases():
    """Language and name of each row that the language can stage, and whether `make test` stages it there.

    Without MPI `make test` stages rows that no earlier language of Rust, C and Python can stage, and rows about memory
    or names from the program. With MPI it stages in C the statuses that Rust cannot stage and that have no other row,
    and in Python the errors that only Python has. The campaign stages the others.
    """
    for language in LANGUAGES:
        here = [row for row in ROWS.values() if ranks_of(row, language)]
        first = {}  # of each status, one without MPI if there is one
        for row in sorted(here, key=lambda row: (ranks_of(row, language) > 1, row["rust"] == 0)):
            first.setdefault(row["status"], row)
        for row in here:
            is_new = not (row["rust"] or row.get("objects") or (language == "python" and row["c"]))
            if ranks_of(row, language) == 1:
                is_often = is_new or row["call"] in GIVEN or row is first[row["status"]]
            else:
                is_often = is_new and (language != "c" or row is first[row["status"]])
            yield language, row["name"], is_often


class Stage:
    """A space, and the row that is staged on it."""

    saved = {}  # by number of ranks

    def __init__(self, row, scratch, program, shim, templates, ranks=None):
        self.row, self.scratch, self.program, self.shim, self.templates = row, scratch, program, shim, templates
        self.space = scratch / "space"
        self.ranks = ranks or row["c"]

    def run(self, *commands, ranks=None, space=None, within=(), variables=None, **inject):
        """The results of a job, which must come to its end on every rank."""
        done, said = self.ended(*commands, ranks=ranks, space=space, within=within, variables=variables, **inject)
        assert done.returncode == 0, done.stdout
        assert "WRONG" not in done.stdout and "INTERNAL" not in done.stdout, done.stdout
        assert sum(one.call == "end" for one in said) == (ranks or self.ranks), done.stdout
        return said

    def ended(self, *commands, ranks=None, space=None, within=(), variables=None, **inject):
        """The end of a job, and its results."""
        ranks = ranks or self.ranks
        job = [self.program, "--solo"] if ranks == 1 else self.mpiexec(ranks)
        job = [*within, *job, self.space if space is None else space, *commands]
        done = subprocess.run(
            list(map(str, job)),
            cwd=self.scratch,
            env=self.environment(inject) | (variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
        return done, [Said(int(rank), *rest) for rank, *rest in LINE.findall(done.stdout)]

    def mpiexec(self, ranks):
        return OPENMPI.mpiexec(ranks, [self.program])

    def environment(self, inject):
        """The environment, with the shim before libc if a call must fail."""
        more = {f"INJECT{'_' + name.upper() if name != 'what' else ''}": str(value) for name, value in inject.items()}
        if inject:
            more |= {"LD_PRELOAD": str(self.shim), "INJECT_SPACE": str(self.space)}
        return OPENMPI.environment(self.scratch) | more

    def save(self, ranks=None):
        """A space in which a job saved the revisions 1 and 2 and ended in order. It is saved once, then copied."""
        ranks = ranks or self.ranks
        if ranks not in self.saved:
            self.saved[ranks] = self.templates / str(ranks)
            self.save_anew(self.saved[ranks], ranks)
        shutil.copytree(self.saved[ranks], self.space)
        self.space.chmod(0o700)

    def save_anew(self, space, ranks):
        self.good(self.run("open", "save:1", "wait", "save:2", "wait", "close", ranks=ranks, space=space))

    def comes_back(self, step, ranks=None, **more):
        """A job restores `step` bit for bit, and can go on; so can the next session."""
        first = ["open", "restore", f"holds:{step}", "save:20", "close"]
        second = ["open", "restore", "holds:20", "close"] if (ranks or self.ranks) == 1 else []
        self.good(self.run(*first, *second, ranks=ranks, **more))

    @staticmethod
    def good(said):
        bad = [one for one in said if one.status != "OK" and one.call != "restored"]
        assert not bad, bad

    def check(self, said, call=None, times=1):
        """Every rank got the error of the row, at the call of the row, and at no other."""
        ranks = {one.rank for one in said}
        told = [one for one in said if one.status != "OK" and one.call not in ("restored", "hold")]
        for rank in ranks:
            mine = [one for one in told if one.rank == rank and one.call == (call or self.row["call"])]
            assert len(mine) == times, f"rank {rank} got {len(mine)} errors: {said}"
            for one in mine:
                self.check_one(one)
        return told

    def check_one(self, one):
        assert one.status == self.row["status"], one
        self.check_text(one.text)
        failing = self.row.get("rank", one.rank)
        assert one.rank == failing or one.text.startswith(f"on rank {failing}: "), one

    def check_text(self, text):
        for says in self.row["says"]:
            assert says.replace("{space}", str(self.space)) in text, f"{says!r} is not in {text!r}"

    def check_report(self, said):
        """The report of the restore names the skipped revision."""
        for one in said:
            if one.call == "restored":
                self.check_text(one.text)

    def refused(self, *commands, times=1, **more):
        """The opening is refused, and nothing else changes."""
        told = self.check(self.run(*(commands or ["open"]), **more), times=times)
        assert all(one.call == "open" for one in told), told


def refused_call(stage, *commands, times=1):
    """The call is refused; the job still saves and restores."""
    said = stage.run("open", *commands, "save:1", "wait", "close")
    told = stage.check(said, times=times)
    assert all(one.call == stage.row["call"] for one in told), told
    stage.comes_back(1)
