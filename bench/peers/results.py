"""The rows of the benchmark, from the lines that the jobs print."""

from harness import rows
from peers import sides


def numbers_of(saved, name):
    """The last numbers that a saver has saved, newest first."""
    return [line["number"] for line in saved.printed if line["side"] == name][:-4:-1]


def first(values):
    return values[0]


def save_rows(case, saved, names, data):
    copies, raw = saved.of("copy"), saved.of("raw_write")
    made = [
        rows.floor(case, "copy", copies, "s"),
        rows.floor(case, "raw_write", raw, "s"),
        rows.floor(case, "data", [data], "bytes"),
    ]
    for name in names:
        made += [
            rows.row(case, f"{name}: waits", saved.of(name, "waits"), "s", "copy", copies),
            rows.row(case, f"{name}: done", saved.of(name, "done"), "s", "raw_write", raw),
            rows.row(case, f"{name}: durable", saved.of(name, "durable"), "s", "raw_write", raw),
            rows.row(case, f"{name}: room", saved.of(f"{name}: room", "room", first), "bytes", "data", [data]),
        ]
        unsynced = saved.of(name, "unsynced", first)
        if None not in unsynced:
            made.append(rows.row(case, f"{name}: unsynced", unsynced, "bytes", "data", [data]))
    return made


def restart_rows(case, restarts, data):
    """Each saver's restarts beside Mainstay's."""
    own = f"{sides.MAINSTAY}: restart"
    against = [max(line["seconds"]) for line in restarts[sides.MAINSTAY]]
    made = [rows.floor(case, own, against, "s")]
    for name, lines in restarts.items():
        if name != sides.MAINSTAY:
            made.append(rows.row(case, f"{name}: restart", [max(line["seconds"]) for line in lines], "s", own, against))
        read = [sum(line["read"]) for line in lines if "read" in line]
        if read:
            made.append(rows.row(case, f"{name}: device_reads", read, "bytes", "data", [data]))
    return made


def of_case(case, saved, restarts, data):
    """All rows of a case. `restarts`: the lines of each saver; `data`: bytes of the state. They are printed as they come."""
    made = save_rows(case, saved, [*restarts], data) + restart_rows(case, restarts, data)
    print(rows.table(made), flush=True)
    return made
