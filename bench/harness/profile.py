"""Pieces and writes of a checkpoint by their size, from the records of a space: paper 000, Table I and Figure 2."""

from . import command, rows

KIB = 2**10
# Names of the size classes of Figure 2, and the size at which each ends.
CLASSES = {"64 B": 64, "4 KiB": 4 * KIB, "64 KiB": 64 * KIB, "512 KiB": 512 * KIB, "more": None}
PARTS = {"count": "writes", "bytes": "bytes", "time_ns": "time"}


def revision(space, number="newest"):
    """The records of one revision, as `mainstay show --phases` prints them."""
    return command.document("show", space, "--phases", "--revision", number)["revision"]


def class_of(bucket):
    ends = (name for name, end in CLASSES.items() if end is None or (bucket["below_bytes"] or end + 1) <= end)
    return next(ends)


def profile_rows(case, found):
    """The pieces of one shard on average, by size class: their number, bytes and time, each beside its total."""
    shards = [shard["profile"]["pieces"] for shard in found["shard_list"]]
    for part, metric in PARTS.items():
        of_class = dict.fromkeys(CLASSES, 0)
        for bucket in (bucket for shard in shards for bucket in shard):
            of_class[class_of(bucket)] += bucket[part] / len(shards)
        total, unit = sum(of_class.values()), {"count": "writes", "bytes": "bytes", "time_ns": "ns"}[part]
        yield rows.floor(case, metric, [total], unit)
        for name, value in of_class.items():
            yield rows.row(case, f"{metric}_below_{name}", [value], unit, metric, [total or 1])
