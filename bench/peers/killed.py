"""Kills a saver when it has written half of a checkpoint over the last one."""

import os
import signal
import subprocess
import time

from peers import disk

LIMIT_S = 120


class Progress:
    """Bytes of a checkpoint under way: those that a process has written, or those in files that are not as before."""

    def __init__(self, folder, pid=None):
        self.pid = pid
        self._folder = folder
        self._sizes = sizes(folder)
        self._handed = self._handed_over()

    def bytes(self):
        return max(self._handed_over() - self._handed, self.in_files())

    def in_files(self):
        return sum(size for file, size in sizes(self._folder).items() if self._sizes.get(file) != size)

    def _handed_over(self):
        try:
            return disk.process_io(self.pid)["wchar"]
        except (OSError, KeyError):
            return 0  # it has ended, or has not started


def sizes(folder):
    """Size of each file, by path and inode."""
    found = {}
    for path in disk.files(folder):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # renamed meanwhile
        found[path, status.st_ino] = status.st_size
    return found


def at_half(process, progress, half):
    """Waits until `half` bytes are written, or until the process has ended."""
    deadline = time.monotonic() + LIMIT_S
    while process.poll() is None and progress.bytes() < half and time.monotonic() < deadline:
        pass  # without a pause: a saving may take a few milliseconds


def kill_saving(command, environment, folder, whole):
    """Starts `program.py twice`, and kills it and its processes in the second saving. False: the kill came too late, as the
    saver was done, or `whole` bytes were in new files."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        if "saved" not in process.stdout.readline():
            raise SystemExit(f"{command[-1]} saves no first checkpoint")
        progress = Progress(folder, process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        at_half(process, progress, whole // 2)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        rest, _ = process.communicate(timeout=LIMIT_S)
    return "saved" not in rest and progress.in_files() < whole
