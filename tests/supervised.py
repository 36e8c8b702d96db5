"""`mainstay run`, followed line by line."""

import queue
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest
from command import MAINSTAY
from limits import LIMIT_S, until


class Run:
    """A `mainstay run` that can be followed; at the end of the `with` it is gone, and its job too."""

    def __init__(self, *arguments, **more):
        self.deadline = time.monotonic() + LIMIT_S
        self.output = []
        self._lines = queue.Queue()
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "start_new_session": True, **more}
        self.process = subprocess.Popen(
            [str(MAINSTAY), "run", *map(str, arguments)],
            stderr=subprocess.STDOUT, text=True, errors="replace", **more,
        )  # fmt: skip
        if self.process.stdout:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            # Open MPI's launcher leaves a stray byte before the next line when a node goes.
            self._lines.put(line.rstrip("\n").lstrip("\0\ufffd"))
        self._lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its job gets SIGTERM
            self.process.wait()

    def lines(self):
        while True:
            try:
                line = self._lines.get(timeout=max(0, self.deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError("it took too long:\n" + "\n".join(self.output)) from None
            if line is None:
                self._lines.put(None)  # for whoever asks again
                return
            self.output.append(line)
            yield line

    def until(self, pattern):
        """Follows it up to a line that matches."""
        for line in self.lines():
            if match := re.search(pattern, line):
                return match
        pytest.fail(f"no line with {pattern!r}:\n" + "\n".join(self.output))

    def until_all(self, *patterns):
        """Follows it until each pattern has matched a line, in any order."""
        left = set(patterns)
        while left:
            line = self.until("|".join(f"(?:{pattern})" for pattern in left)).string
            left -= {pattern for pattern in left if re.search(pattern, line)}

    def signal(self, number):
        """Sends a signal to the command, and waits until it has taken it: of two that are pending at once one is seen."""
        self.process.send_signal(number)
        status = Path("/proc", str(self.process.pid), "status")
        until(
            lambda: (
                not any(
                    int(mask, 16) >> number - 1 & 1
                    for mask in re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status.read_text(), re.M)
                )
            )
        )

    def end(self):
        """The exit status, and all that was printed."""
        for _ in self.lines():
            pass
        status = self.process.wait(max(0.1, self.deadline - time.monotonic()))
        return status, "\n".join(self.output)


def run(*arguments, **more):
    with Run(*arguments, **more) as running:
        return running.end()
