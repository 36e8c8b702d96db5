"""Rows from the printed lines of the jobs. Times count from the moment at which all ranks start until the slowest rank
is done: with more ranks than processors, each waits for its turn."""

from harness import rows
from harness.mpi import Measured

from .mix import MIB
from .sides import FILES, FLOORS, PUBLISHED, READ, STAGES

# Parts of t2 - t1 on the last rank to reach t2; `processor` is its wait for a processor.
PHASES = ("processor", "communication", "buffer_wait", "copy", "other", "resume")
MEMORY_BYTES_MAX = 16 * MIB  # a rank, beside the pool
GAIN_MIN = {"LU": 2.23, "BT": 2.62}  # published, of a pool of 64 MiB over writing directly
ALLOWANCE_PART_MIN = 0.8
FLAT = 1.05  # a pool within this of the best is on the flat part


class Saved(Measured):
    def perceived(self, side):
        return self.of(side, "t2")

    def durable(self, side):
        return self.of(side, "t3")

    def overlap(self, side):
        return [t3 - t2 for t2, t3 in zip(self.perceived(side), self.durable(side))]

    def unsynced(self, side):
        """The time until the kernel has all pieces, without the sync at the end."""
        parts = ("t1", "communication", "copy")
        return [max(map(sum, zip(*(line[part] for part in parts)))) for line in self.rounds(side)]

    def phase(self, side, name):
        name = "t1" if name == "processor" else name
        return [line[name][line["t2"].index(max(line["t2"]))] for line in self.rounds(side)]


def against_rows(case, saved):
    """The floors, and `direct` with and without its sync."""

    def against_buffered(metric, values):
        return rows.row(case, metric, values, "s", "buffered", saved.perceived("buffered"))

    return [
        *(rows.floor(case, side, saved.perceived(side), "s") for side in FLOORS),
        against_buffered("direct", saved.perceived("direct")),
        against_buffered("direct_unsynced", saved.unsynced("direct")),
        *phase_rows(case, saved, "direct"),
    ]


def phase_rows(case, saved, side):
    perceived = saved.perceived(side)
    return [rows.row(case, f"{side}_{phase}", saved.phase(side, phase), "s", side, perceived) for phase in PHASES]


def session_rows(case, saved, side, target=None):
    """`target`: the largest part of the time of `direct` that passes."""

    def one(metric, values, reference, against, target=None):
        return rows.row(case, metric, values, "s", reference, against, target)

    perceived, buffered = saved.perceived(side), saved.perceived("buffered")
    return [
        one(side, perceived, "direct", saved.perceived("direct"), target),
        one(f"{side}_to_unsynced", perceived, "direct_unsynced", saved.unsynced("direct"), target),
        *phase_rows(case, saved, side),
        one(f"{side}_overlap", saved.overlap(side), "buffered", buffered),
        one(f"{side}_durable", saved.durable(side), "buffered", buffered),
    ]


def least_rows(case, saved, data_bytes, pool_bytes):
    """The least wait of a program with such a pool: data that does not fit in the pool must be on the disk at t2."""
    part = max(0, 1 - pool_bytes / data_bytes)
    least = [max(copy, part * disk) for copy, disk in zip(saved.perceived("copy"), saved.perceived("disk"))]
    return [
        rows.floor(case, "least", least, "s"),
        *(
            rows.row(case, f"{side}_to_least", saved.perceived(side), "s", "least", least)
            for side in ("direct", "pool")
        ),
    ]


def stages_rows(case, mix, saved, data_bytes, pool_bytes):
    published = 1 / GAIN_MIN[mix.name]
    return [
        *against_rows(case, saved),
        *least_rows(case, saved, data_bytes, pool_bytes),
        *(rows.row(case, side, saved.perceived(side), "s", "direct", saved.perceived("direct")) for side in FILES),
        *(
            rows.row(case, f"{side}_to_{file}", saved.perceived(side), "s", file, saved.perceived(file))
            for side in STAGES
            for file in ("plain", "plain_fsync")
        ),
        *(
            row
            for side in STAGES[1:]
            for row in session_rows(case, saved, side, target=published if side == "pool" else None)
        ),
    ]


def sides_rows(case, saved, sides):
    return [*against_rows(case, saved), *(row for side in sides for row in session_rows(case, saved, side.name))]


def pools_rows(case, saved, sides, data_bytes, advised_bytes):
    """`allowed` is the time with the largest gain over `direct` that the machine allows: a copy replaces plain writes
    and a sync."""
    floors = (saved.perceived(name) for name in ("direct", "copy", "buffered"))
    allowed = [direct * copy / buffered for direct, copy, buffered in zip(*floors)]
    holding = [side.name for side in sides if side.settings["pool_bytes"] > data_bytes]
    knee = knee_bytes(saved, sides)

    def to(reference, against, target=None):
        return [
            rows.row(case, f"{side}_to_{reference}", saved.perceived(side), "s", reference, against, target)
            for side in holding
        ]

    return [
        *sides_rows(case, saved, sides),
        rows.floor(case, "allowed", allowed, "s"),
        *to("allowed", allowed, 1 / ALLOWANCE_PART_MIN),
        *to("copy", saved.perceived("copy")),
        rows.floor(case, "knee", [knee], "bytes"),
        rows.row(case, "advised", [advised_bytes], "bytes", "knee", [knee]),
    ]


def knee_bytes(saved, sides):
    """The smallest pool for which a larger pool brings no noticeable gain."""
    taken = {side.settings["pool_bytes"]: rows.median(saved.perceived(side.name)) for side in sides}
    return min(size for size, seconds in taken.items() if seconds <= FLAT * min(taken.values()))


def restart_rows(case, restarted, data_bytes):
    """A part lasts from the moment at which the last rank finishes the part before until the last rank finishes this
    part."""
    taken = {side: restarted.of(side, "read") for side in (READ, PUBLISHED, *STAGES)}

    def part(side, name, since, until):
        begun = restarted.of(side, since)
        values = [end - start for start, end in zip(begun, restarted.of(side, until))]
        return rows.row(case, f"{side}_{name}", values, "s", side, taken[side])

    made = [
        rows.floor(case, READ, taken[READ], "s"),
        rows.row(case, PUBLISHED, taken[PUBLISHED], "s", READ, taken[READ]),
        part(PUBLISHED, "rebuild", "opened", "rebuilt"),
        part(PUBLISHED, "read", "rebuilt", "read"),
    ]
    for side in STAGES:
        made += [
            rows.row(case, side, taken[side], "s", PUBLISHED, taken[PUBLISHED]),
            rows.row(case, f"{side}_open", restarted.of(side, "opened"), "s", side, taken[side]),
            part(side, "restore", "opened", "rebuilt"),
            part(side, "read", "rebuilt", "read"),
        ]
    made.append(rows.floor(case, "data", [data_bytes], "bytes"))
    for side in taken:
        read = restarted.of(side, "device_bytes", together=sum)
        made.append(rows.row(case, f"{side}_device_reads", read, "bytes", "data", [data_bytes]))
    return made


def memory_rows(case, measured, ranks):
    """`measured`: pairs of a side and the printed lines of its job. The figures are for a node."""
    made = []
    for side, printed in measured:
        allowed = [side.pool_bytes + ranks * MEMORY_BYTES_MAX]
        pool, own = printed.of("memory", "pool"), printed.of("memory", "own", together=sum)
        node = [sum(both) for both in zip(pool, own)]
        made += [
            rows.floor(case, f"{side.name}_allowed", allowed, "bytes"),
            rows.row(case, side.name, node, "bytes", f"{side.name}_allowed", allowed, 1),
            rows.row(case, f"{side.name}_pool", pool, "bytes", side.name, node),
            rows.row(case, f"{side.name}_ranks", own, "bytes", side.name, node),
        ]
    return made
