"""A job of c/faults.c that stops at each `pause` until the test lets it go on."""

import queue
import re
import subprocess
import threading
import time

from limits import LIMIT_S
from mpi import OPENMPI

LINE = re.compile(r"^= (\d+) (\S+) (\S+) ?(.*)$")


class Paused:
    """Use as a context manager. `said`: rank, call, status and text of each line."""

    def __init__(self, ranks, command, scratch, limit_s=LIMIT_S):
        self.ranks, self.limit_s = ranks, limit_s
        self.process = subprocess.Popen(
            list(map(str, OPENMPI.mpiexec(ranks, command))),
            env=OPENMPI.environment(scratch) | {"OMPI_MCA_btl_sm_backing_directory": str(scratch)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.said, self.other, self._lines = [], [], queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(self.limit_s)

    def until_all(self, call):
        """Follows it until all ranks have come to `call`."""
        deadline, before = time.monotonic() + self.limit_s, len(self.said)
        while sum(one[1] == call for one in self.said[before:]) < self.ranks:
            try:
                line = self._lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"it hangs: {self.said} {self.other}") from None
            assert line is not None, f"it ended: {self.said} {self.other}"
            self._note(line)

    def has_said(self, call, more_than):
        """Whether more calls than these have ended, in the output so far."""
        while not self._lines.empty():
            line = self._lines.get()
            assert line is not None, f"it ended: {self.said} {self.other}"
            self._note(line)
        return sum(one[1] == call for one in self.said) > more_than

    def _note(self, line):
        if match := LINE.match(line):
            self.said.append(match.groups())
        else:
            self.other.append(line)

    def go_on(self):
        self.process.stdin.write("on\n")
        self.process.stdin.flush()
