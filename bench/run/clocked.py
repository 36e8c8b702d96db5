"""The examples with their calls of Mainstay clocked (clock.c)."""

from pathlib import Path

import library

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
# As named in clock.c.
CLOCKS = ("open", "restore", "due", "checkpoint", "close", "other")
CALLS = ("open", "open_mpi", "protect_array", "restore", "check", "due", "checkpoint", "last_record", "wait", "close")


def build(name, folder, sources=()):
    """The example `name` as it is, or the program of these C files, as the file of this name in `folder`."""
    wrapped = [f"-Wl,--wrap=mainstay_{call}" for call in CALLS]
    sources = [*(sources or sorted((EXAMPLES / name).glob("*.c"))), HERE / "clock.c"]
    library.build(folder / name, sources, "-O3", "-ffp-contract=off", "-lm", *wrapped)


def inside(runs, *clocks):
    """For each run % of it, on the rank where it was most."""
    return [100 * max(map(sum, zip(*(run[clock] for clock in clocks)))) / max(run["run"]) for run in runs]
