"""Runs a program natively, or as ranks in slots, and reads its lines of JSON."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness import machine
from harness import mpi as harness
from mpi import ROOT, processes

from .programs import MAINSTAY

LIMIT_S = 300  # of one job
HOSTS = ("host-ranks", "mainstay-ranks")


def prepare(o):
    """Makes the folders, and prints the machine. Running jobs end with this process, however it ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    os.environ.setdefault("XDG_CACHE_HOME", str(ROOT / "target" / "tests" / "cache"))
    for folder in (o.out, o.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.scratch), flush=True)


def native_words(mpi, ranks, command):
    return mpi.mpiexec(ranks, command), mpi.environment


def slots_words(space, ranks, command, mpi=None, count=0, options=()):
    """The command of a job with `count` processes. Without `mpi` it has one process and no launcher."""
    words = [MAINSTAY, "run", "--restarts", 0, "--virtual", ranks, "--space", space, *options, "--"]
    words += mpi.mpiexec(count, command) if mpi else command
    return words, mpi.environment if mpi else lambda scratch: {**os.environ, "TMPDIR": str(scratch)}


class Job:
    """A running job. It is killed at the end of the `with`, if it still runs."""

    def __init__(self, words, environment, scratch, **variables):
        self.words = list(map(str, words))
        self.errors = open(Path(scratch) / "errors", "w+")
        settings = {**environment(scratch), **{name: str(value) for name, value in variables.items()}}
        self.start = time.monotonic()
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True, errors="replace",
            cwd=scratch, env=settings, start_new_session=True,
        )  # fmt: skip
        self.limit = threading.Timer(LIMIT_S, self.process.kill)
        self.limit.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.limit.cancel()
        harness.end(self.process)
        self.errors.close()

    def lines(self):
        """The next lines of JSON."""
        for line in self.process.stdout:
            # Open MPI's launcher leaves a stray byte before the next line when a process goes.
            line = line.lstrip("\0\ufffd")
            if line.startswith("{"):
                yield json.loads(line)

    def until(self, side):
        """The next line of this side."""
        for line in self.lines():
            if line["side"] == side:
                return line
        self.check()
        raise SystemExit(f"{self.words[-1]} ended without a line of {side}")

    def rest(self):
        """All lines up to the end. Fails if the job failed."""
        found = list(self.lines())
        self.check()
        return found

    def check(self):
        if self.process.wait(LIMIT_S) != 0:
            self.errors.seek(0)
            raise SystemExit(f"{' '.join(self.words)} ended with {self.process.returncode}:\n{self.errors.read()}")

    def hosts(self):
        """The ids of the processes that hold ranks."""
        found, above = [], [self.process.pid]
        while above:
            above = [pid for pid, parent in processes() if parent in above]
            found += [pid for pid in above if any(name in word for word in called(pid)[:2] for name in HOSTS)]
        return found


def called(pid):
    try:
        return Path("/proc", str(pid), "cmdline").read_text().split("\0")
    except OSError:
        return []


def measured(words, environment, scratch, **variables):
    """The seconds of each side of a job that runs to its end."""
    with Job(words, environment, scratch, **variables) as job:
        return {line["side"]: line["seconds"] for line in job.rest()}
