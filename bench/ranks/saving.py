"""Checkpoints and restarts, beside a program that protects the same bytes by hand."""

import tempfile

from harness import rows

from .saved import Tables, copy_s, verify_s
from .turns import rounds

CHANGED = 0.1  # of the tables, between two incremental checkpoints
STAYED = 0.99
PERCEIVED, SECOND, RESTART = 1.1, 0.02, 2
CHECKPOINTS = 3  # of a job; the first makes the files
SMALL_MIB = 0.25  # of a rank that has little to restore
RANKS = 2


def checkpoint(o, folder, case, part, **settings):
    def side(name):
        def run(scratch):
            found = Tables(folder, scratch, name, RANKS, o.mib, part, 1 + CHECKPOINTS, **settings).saved()[1:]
            return {metric: rows.median([one[metric] for one in found]) for metric in found[0]}

        return run

    found = rounds(o, {name: side(name) for name in ("by_hand", "slots")})
    for metric, target in (("perceived", PERCEIVED), ("durable", PERCEIVED), ("pause", None), ("bytes", None)):
        by_hand, slots = ([one[metric] for one in found[name]] for name in ("by_hand", "slots"))
        unit, reference = "bytes" if metric == "bytes" else "s", f"by_hand_{metric}"
        yield rows.floor(case, reference, by_hand, unit)
        yield rows.row(case, metric, slots, unit, reference, by_hand, target)


def whole(o, folder):
    yield from checkpoint(o, folder, f"{RANKS} x {o.mib} MiB, whole", 1, MAINSTAY_CAPTURE="whole")


def incremental(o, folder):
    case = f"{RANKS} x {o.mib} MiB, incremental, {100 * CHANGED:g} % changed"
    yield from checkpoint(o, folder, case, CHANGED, MAINSTAY_CAPTURE="incremental")


def staying(o, folder):
    """The second revision of a program with large tables that hardly change."""

    def run(scratch):
        tables = Tables(folder, scratch, "slots", 1, o.stay, 1 - STAYED, 2, count=0, MAINSTAY_CAPTURE="incremental")
        return [one["bytes"] for one in tables.saved()]

    found, case = rounds(o, {"slots": run})["slots"], f"1 x {o.stay} MiB, of which 1 % changes"
    first = [one[0] for one in found]
    yield rows.floor(case, "first", first, "bytes")
    yield rows.row(case, "second", [one[1] for one in found], "bytes", "first", first, SECOND)


def restart(o, folder):
    """The time of a restart of ranks with much memory, minus that of ranks with little. The same for `mainstay verify`."""
    case = f"restart of {RANKS} x {o.back} MiB"

    def run(scratch):
        found = {}
        for name, mib in (("large", o.back), ("small", SMALL_MIB)):
            with tempfile.TemporaryDirectory(dir=scratch) as own:
                tables = Tables(folder, own, "slots", RANKS, mib, 0, 1, count=0)
                tables.saved_and_killed()
                found[f"verify {name}"] = verify_s(tables.space)
                if name == "large":
                    found["copy"], found["copy_new"] = (
                        copy_s(tables.space, RANKS * o.back << 20, is_touched) for is_touched in (True, False)
                    )
                found[name] = tables.back()
        return found

    found = rounds(o, {"slots": run})["slots"]
    made = [max(0, one["large"] - one["small"]) for one in found]
    verified = [max(1e-9, one["verify large"] - one["verify small"]) for one in found]
    yield rows.floor(case, "start", [one["small"] for one in found], "s")
    yield rows.floor(case, "verify", verified, "s")
    for copy, metric, target in (("copy", "restart", RESTART), ("copy_new", "restart_to_new", None)):
        copies = [one[copy] for one in found]
        both = [one + verify for one, verify in zip(copies, verified)]
        yield rows.floor(case, copy, copies, "s")
        yield rows.floor(case, f"{copy}_and_verify", both, "s")
        yield rows.row(case, metric, made, "s", f"{copy}_and_verify", both, target)


CASES = (whole, incremental, staying, restart)
