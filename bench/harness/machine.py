"""The machine that a benchmark ran on, in a few words."""

import os
import platform
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


def describe(scratch):
    kind, device = mount_of(scratch)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{processor()}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}, "
        f"{kind} on {device}; load before: {load:.1f}"
    )
