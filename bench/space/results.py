"""Rows from the measurements, and the figures of paper 001."""

from harness import rows

# The settings of each way, and whether it runs on the mounts with lazy I/O. {nodes}: the number of nodes. {roomy}: a
# shard size with room for one more revision than required.
DELEGATED = {
    "delegated_node": ("per=node", False),
    # Waits for t3, as the paper's interface does.
    "delegated_direct": ("per=node,stage=direct,keep=1,shard_bytes={roomy}", False),
    "delegated_roomy": ("per=node,keep=1,shard_bytes={roomy}", False),
    "delegated_rank": ("per=rank", False),
    "delegated_app": ("per=app", False),
    "delegated_lazy": ("per=app", True),
}
ASKED = ("delegated_node", "delegated_direct")  # to be the faster
ROOMS = 3  # for keep + 2 revisions, with keep = 1
MARGIN_BYTES = 64 << 10  # for what is saved beside the field
FILES = ("segmented", "strided", "file")
WAYS = (*FILES, *DELEGATED)
LONG = {"segmented": "the shared file", "file": "file per process"}
COMPARED = ("segmented", "file")  # published; strided is reported beside them
TOTALS = ("requests", "capability messages", "journal events")

FASTER_MIN, SLOWER_MIN = 1, 1.3  # how many times as fast it must be as the faster and the slower of those compared
# Of delegated / the other, from the text of paper 001, V.B and V.C: by metadata servers and processes.
PUBLISHED_TIME = {
    (1, 128): {"segmented": 1 - 0.07, "file": 1 - 0.10},
    (4, 64): {"segmented": 1 - 0.14, "file": 1 - 0.31},
    (4, 128): {"segmented": 1 - 0.22, "file": 1 - 0.31},
}
PUBLISHED_REQUESTS = {"segmented": 0.2, "file": 0.3}  # one metadata server, any number of processes


def way_words(ways, nodes, pool_bytes, bytes_each):
    """The ways in the form that the program takes. Each node has a pool of `pool_bytes`; each process saves
    `bytes_each`."""
    roomy = bytes_each * (ROOMS + 1) // ROOMS + MARGIN_BYTES

    def settings(way):
        chosen = DELEGATED[way][0].format(nodes=nodes, roomy=roomy)
        return f"@{int(is_lazy(way))}:{chosen},pool_bytes={pool_bytes}"

    return [way + settings(way) if way in DELEGATED else way for way in ways]


def is_lazy(way):
    return way in DELEGATED and DELEGATED[way][1]


def of_case(case, ways, taken, counted):
    made = time_rows(case, ways, taken)
    return made + count_rows(case, ways, taken) if counted else made


def time_rows(case, ways, taken):
    durable = {way: taken.of(way, "durable") for way in ways}
    by_time = sorted((way for way in COMPARED if way in ways), key=lambda way: rows.median(durable[way]))
    made = [rows.floor(case, way, durable[way], "s") for way in COMPARED if way in ways]
    if "strided" in ways:
        against = by_time[-1:] or ["strided"]
        made.append(rows.row(case, "strided", durable["strided"], "s", against[0], durable[against[0]]))
    for way in (way for way in DELEGATED if way in ways):
        asked = way in ASKED
        for other, target in zip(by_time or [way], (1 / FASTER_MIN, 1 / SLOWER_MIN)):
            metric = f"{way}_to_slower" if other in by_time[1:] else way
            made.append(rows.row(case, metric, durable[way], "s", other, durable[other], target if asked else None))
        made.append(rows.row(case, f"{way}_perceived", taken.of(way, "perceived"), "s", way, durable[way]))
    return made


def cost(taken, way, name):
    return [line["cost"][name] for line in taken.rounds(way)]


def count_rows(case, ways, taken):
    """All checkpoints together: totals, and requests by kind."""
    made = []
    for name in TOTALS:
        totals = {way: [sum(cost(taken, way, name))] for way in ways}
        against = next((other for other in COMPARED if other in ways and totals[other][0]), None)
        for way in ways:
            reference = (metric(against, name), totals[against]) if against and way in DELEGATED else ()
            made.append(rows.row(case, metric(way, name), totals[way], "in all", *reference))
    kinds = sorted({name for line in taken.printed for name in line["cost"] if name.startswith("request ")})
    totals = {(way, kind): sum(cost(taken, way, kind)) for way in ways for kind in kinds}
    return made + [rows.row(case, metric(way, kind), [n], "in all") for (way, kind), n in totals.items() if n]


def metric(way, name):
    return f"{way}: {name}"


def published(servers, processes):
    """Lines to read: the figures of the paper for such a case."""
    of_time = PUBLISHED_TIME.get((servers, processes), {})
    lines = [f"published: {ratio:.2f} of the time of {LONG[other]}" for other, ratio in of_time.items()]
    return [*lines, published_text()] if servers else []


def published_text():
    parts = [f"{ratio:.0%} of those of {LONG[other]}" for other, ratio in PUBLISHED_REQUESTS.items()]
    return "published requests: " + ", ".join(parts)
