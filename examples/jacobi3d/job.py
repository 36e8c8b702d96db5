"""One run of an MPI program that can be followed, hurt, and cleaned up after."""

import os
import queue
import select
import signal
import subprocess
import threading
import time
import uuid

from build import OPENMPI
from mpi import processes_of

END_LIMIT_S = 15
JOB = "MAINSTAY_TEST_JOB"  # in the environment of all processes of a job: its name


class Job:
    """Use as a context manager: at its end no process of the job is left. More goes to Popen."""

    def __init__(self, ranks, command, scratch, limit_s, mpi=OPENMPI, **process):
        self.deadline = time.monotonic() + limit_s
        self.output = []
        self._count = ranks
        self._ranks = {}  # rank: pidfd, which means this very process for as long as it is open
        self._lines = queue.Queue()
        self._mpi = mpi
        self._name = uuid.uuid4().hex
        mpi.found()
        self.process = subprocess.Popen(
            mpi.mpiexec(ranks, command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**mpi.environment(scratch), JOB: self._name},
            **process,
            start_new_session=True,  # Ctrl-C is ours: we end the job in order
        )
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._hold_ranks()
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.wait_for_ranks()
        for pidfd in self._ranks.values():
            os.close(pidfd)
        self._ranks.clear()
        self._mpi.clear()

    def lines(self):
        """The output of the job, line by line, until it ends."""
        while True:
            try:
                line = self._lines.get(timeout=max(0, self.deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError("the job took too long; its last lines:\n" + self.tail()) from None
            if line is None:
                return
            self._hold_ranks()
            self.output.append(line)
            yield line

    def tail(self):
        return "\n".join(self.output[-15:])

    def kill_rank(self, rank):
        """SIGKILL to one rank: to it alone, not to mpiexec."""
        self._hold_ranks(rank)
        signal.pidfd_send_signal(self._ranks[rank], signal.SIGKILL)

    def wait(self):
        """The exit status of mpiexec, once it has ended and its ranks are gone too."""
        status = self.process.wait(max(0.1, self.deadline - time.monotonic()))
        self.wait_for_ranks()
        return status

    def wait_for_ranks(self):
        """mpiexec can end before its ranks do: until they are gone, they may still write. The ranks of a job
        that ended before its first line was read are found by their session and their environment."""
        missed = processes_of(self.process.pid, JOB, self._name)
        deadline = time.monotonic() + END_LIMIT_S
        for pidfd in (*self._ranks.values(), *missed):
            while not select.select([pidfd], [], [], max(0, deadline - time.monotonic()))[0]:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                deadline = time.monotonic() + END_LIMIT_S
        for pidfd in missed:
            os.close(pidfd)

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _hold_ranks(self, wanted=None):
        """Opens the ranks, which are processes below mpiexec and know their number; again while some are missing, as mpiexec
        may have started only some by then, or if `wanted` is not among them."""
        if (len(self._ranks) < self._count or wanted not in (None, *self._ranks)) and self.process.poll() is None:
            for rank, pidfd in self._mpi.ranks(self.process.pid).items():
                if self._ranks.setdefault(rank, pidfd) != pidfd:
                    os.close(pidfd)
