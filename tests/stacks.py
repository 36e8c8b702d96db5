"""The places of hanging processes: the stacks of a job's processes from gdb, or without gdb the kernel's
information."""

import shutil
import subprocess
from pathlib import Path

GDB_S = 30  # for one process
LINES_MAX = 60  # of one process
PROCESSES_MAX = 12


def stacks(root):
    """Of the process `root` and all that came of it."""
    return "\n".join(of_process(pid) for pid in family(root)[:PROCESSES_MAX])


def family(root):
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def of_process(pid):
    words = told(pid, "cmdline").replace("\0", " ").strip()
    shown = by_gdb(pid) if shutil.which("gdb") else ""
    lines = (shown or by_kernel(pid)).splitlines()
    more = [f"… {len(lines) - LINES_MAX} lines more"] if len(lines) > LINES_MAX else []
    return "\n".join([f"--- process {pid}: {words[:200]}", *lines[:LINES_MAX], *more])


def by_gdb(pid):
    command = [
        "gdb",
        "-p",
        str(pid),
        "-batch",
        "-nx",
        "-ex",
        "set pagination off",
        "-ex",
        "thread apply all -ascending backtrace 25",
    ]
    try:
        shown = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=GDB_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    frames = [line for line in shown.stdout.splitlines() if line.startswith(("Thread ", "#"))]
    return "\n".join([state(pid), *frames]) if frames else ""


def by_kernel(pid):
    return "\n".join([state(pid), "wchan: " + told(pid, "wchan"), told(pid, "stack")])


def state(pid):
    return next((line for line in told(pid, "status").splitlines() if line.startswith("State:")), "State: gone")


def told(pid, what):
    try:
        return Path(f"/proc/{pid}/{what}").read_text(errors="replace")
    except OSError:  # it has ended, or only its owner is told
        return ""
