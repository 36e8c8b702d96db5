"""The machine that a benchmark ran on, in a few words."""

import mmap
import os
import platform
import time
from pathlib import Path


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def mount_of(path):
    """File system and device that hold `path`: those of the longest mount point above it."""
    path, best = Path(path).resolve(), ("", "?", "?")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point, (kind, device) = before.split()[4], after.split()[:2]
        if path.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind, device)
    return best[1:]


def meet_memory(size):
    """As process_meet_memory in c/process.h: touches `size` bytes of free memory, or half of it, and gives them back. Seconds."""
    size = min(size, os.sysconf("SC_AVPHYS_PAGES") // 2 * mmap.PAGESIZE)
    started = time.perf_counter()
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1
    return time.perf_counter() - started


def describe(scratch):
    kind, device = mount_of(scratch)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{processor()}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}, "
        f"{kind} on {device}; load before: {load:.1f}"
    )
