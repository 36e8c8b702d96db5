"""Arteaga, Zhao: Towards Scalable Application Checkpointing with Parallel File System Delegation."""

from .figure import LESS, Claim, Figure, Here, ms, per_cent

PAPER = "001"
TITLE = "Space delegated by a parallel file system"
PROCESSES = (16, 32, 64, 128)
KINDS = {1: "CephFS, 1 metadata server", 4: "CephFS, 4 metadata servers"}
WAYS = {
    "shared file": {"way": "segmented"},
    "file per process": {"way": "file"},
    "delegation": {"way": "delegated_direct"},
}
GROUPS = {str(count): {"count": count} for count in PROCESSES}
OTHERS = {"shared file": "segmented", "file per process": "file"}
LOCAL = "the whole file system runs on this machine, so its daemons share two cores with the processes"
DATA = "data, not metadata, take most of the time, as in the paper"


def faster(servers, count, way, per):
    """The text says by how many per cent less time; here as a part of the other's time."""

    # The first of the two is the reference of `delegated_direct`, and the other that of `_to_slower`.
    def find(results):
        found = {
            row["reference"]: per_cent(row)
            for metric in ("delegated_direct", "delegated_direct_to_slower")
            if (row := results.row("space", f"{KINDS[servers]}, {count} x *", metric))
        }
        return found.get(OTHERS[way])

    return Claim(f"{count} processes: time of delegation, of that of a {way}", 100 - per, find, LESS, "%")  # fmt: skip


def operations(servers, way, per):
    def find(results):
        rows = [
            results.row("space", f"{KINDS[servers]}, *", f"{name}: requests")
            for name in ("delegated_direct", OTHERS[way])
        ]
        return None if None in rows else 100 * rows[0]["value"] / rows[1]["value"]

    return Claim(f"operations of delegation, of those of a {way}", per, find, LESS, "%")  # fmt: skip


def times(name, servers, published, claims):
    return Figure(
        name, f"Time of a checkpoint, {KINDS[servers]}", "bars", "ms", "processes", tuple(GROUPS), published,
        Here(GROUPS, WAYS, bench="space", case=f"{KINDS[servers]}, {{count}} x *", metric="{way}", of=ms),
        claims, {"space": ()}, f"{LOCAL}; {DATA}",
    )  # fmt: skip


def totals(name, servers, claims):
    return Figure(
        name, f"Operations of metadata in nine checkpoints, {KINDS[servers]}", "bars", "operations", "processes", tuple(GROUPS), {},
        Here(GROUPS, WAYS, bench="space", case=f"{KINDS[servers]}, {{count}} x *", metric="{way}: requests"),
        claims, {"space": ()}, "a space is opened once and written in place; PVFS2 asked for attributes at each write",
    )  # fmt: skip


def kinds(name, servers):
    names = {"GETATTR": "getattr", "CREATE": "create", "LOOKUP": "lookup", "CRDIRENT": "link"}
    return Figure(
        name, f"Operations of metadata by kind, 128 processes, {KINDS[servers]}", "bars", "operations", "", tuple(names), {},
        Here({label: {"kind": kind} for label, kind in names.items()}, WAYS, bench="space",
             case=f"{KINDS[servers]}, 128 x *", metric="{way}: request {kind}"),
        (), {"space": ()}, "the text gives no numbers; CephFS makes an entry and a file by one request, create",
    )  # fmt: skip


FIGURES = (
    Figure("Figure 1", "", drawing="the architecture"),
    times("Figure 2", 1, {}, (faster(1, 128, "shared file", 7), faster(1, 128, "file per process", 10))),
    totals("Figure 3", 1, (operations(1, "shared file", 20), operations(1, "file per process", 30))),
    kinds("Figure 4", 1),
    times("Figure 5", 4, {}, (faster(4, 64, "shared file", 14), faster(4, 64, "file per process", 31),
                              faster(4, 128, "shared file", 22), faster(4, 128, "file per process", 31))),
    totals("Figure 6", 4, (operations(4, "shared file", 20), operations(4, "file per process", 10))),
    kinds("Figure 7", 4),
)  # fmt: skip
