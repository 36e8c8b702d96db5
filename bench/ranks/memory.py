"""The memory of a rank beyond its data."""

import re
from pathlib import Path

from harness import rows

from .saved import Tables
from .turns import rounds

ALLOWED = 500_000
RANKS = 4


def dirty(pid):
    """Bytes of pages that belong to the process alone and that it has written."""
    text = Path("/proc", str(pid), "smaps_rollup").read_text()
    return 1024 * sum(int(kb) for kb in re.findall(r"^Private_Dirty: +(\d+) kB", text, re.MULTILINE))


def a_rank(o, folder):
    """The difference between a process with half of the ranks and one with all of them."""

    def run(ranks):
        def measure(scratch):
            tables = Tables(folder, scratch, "slots", ranks, 0, 0, 1, count=0)
            with tables.start() as job:
                job.until("hold")
                [host] = job.hosts()
                found = dirty(host)
                tables.let_go_on(0)
                job.rest()
            return found

        return measure

    found = rounds(o, {"half": run(RANKS), "all": run(2 * RANKS)})
    each = [(whole - half) / RANKS for half, whole in zip(found["half"], found["all"])]
    case = "memory of a rank beyond its data"
    yield rows.floor(case, "allowed", [ALLOWED], "bytes")
    yield rows.row(case, "dirty", each, "bytes", "allowed", [ALLOWED], 1)


CASES = (a_rank,)
