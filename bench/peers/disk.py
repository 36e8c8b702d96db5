"""The files of a checkpoint on the disk: their room, their bytes in the page cache, their sync."""

import ctypes
import mmap
import os
from pathlib import Path

CACHESTAT = 451  # the system call, of Linux 6.5


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def room(folder):
    """Bytes that the files take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in files(folder))


def unsynced(folder):
    """Bytes in the page cache that the disk does not have yet; None if this kernel does not say."""
    pages = 0
    for path in files(folder):
        whole, counts = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
        with open(path, "rb") as file:
            if ctypes.CDLL(None).syscall(CACHESTAT, file.fileno(), whole, counts, 0) != 0:
                return None
        pages += counts[1] + counts[2]  # dirty, and under way
    return pages * mmap.PAGESIZE


def sync(folder):
    """All files, and the folders that name them, are on the disk."""
    for path in [*files(folder), *(path for path in folder.rglob("*") if path.is_dir()), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def drop(folder):
    """The page cache has nothing of the files."""
    sync(folder)
    for path in files(folder):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bytes_read():
    """Bytes that this process has had from the disk."""
    return process_io("self")["read_bytes"]


def process_io(pid):
    """The counters of a process, such as `wchar`, the bytes that it has handed to the kernel."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines)}


def flip(folder, sample):
    """Changes one byte where the files have the bytes `sample`. Returns the number of places."""
    places = 0
    for path in files(folder):
        if path.stat().st_size == 0:
            continue
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
            at = content.find(sample)
            while at >= 0:
                content[at + 3] ^= 0xFF
                places += 1
                at = content.find(sample, at + len(sample))
    sync(folder)
    return places
