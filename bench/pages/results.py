"""Rows from the printed lines of the jobs, and from the bytes that the spaces record as written."""

from harness import rows

from .sides import CHANGED, CLONE, COPY, FORCED, HASHES, HUGE, LIST, PAGES, SCAN, WHOLE

GIB, MIB, PAGE = 2**30, 2**20, 4096
FIRST_WRITE_S = 1.2e-6  # of a page, beside the same write where nothing is watched
RESTORE_MAX = 1.1  # of an incremental revision, to one that was written whole
READS_MAX = 1.1  # of a restore, to the same reads without Mainstay
CLONE_MAX = 1.3
SLOWDOWN_MAX = 1.5  # with write protection
HUGE_MAX = 0.05  # t2 - t1 with pages of 2 MiB, of a copy


def bookkeeping_s(bytes, part):
    """The allowance for finding the changed pages, beside the kernel's scan."""
    return (1e-3 + 15e-3 * part) * bytes / GIB


def bookkept_s(perceived, copy, scan, staged, dirty):
    """The wait of the program without the kernel's scan and without the copy of the `staged` bytes. `copy` is the time
    to copy `dirty` bytes."""
    return [max(0, took - least * max(1, staged / dirty) - bare) for took, least, bare in zip(perceived, copy, scan)]


def changed_rows(case, saved, names, bytes, part, written, staged):
    """`bytes`: the memory of a rank. `written`: the bytes written by each session for a rank, when `part` of the memory
    is dirty. `staged`: the page data among them, without the lists that describe it."""
    dirty = part * bytes
    copy, scan = saved.of(COPY, "perceived"), saved.of(SCAN, "perceived")
    plain = [seconds / (dirty / PAGE) for seconds in saved.of(COPY, "write")]
    made = [
        rows.floor(case, COPY, copy, "s"),
        rows.floor(case, SCAN, scan, "s"),
        rows.floor(case, LIST, saved.of(LIST, "perceived"), "s"),
        rows.floor(case, "bookkeeping_allowed", [bookkeeping_s(bytes, part)], "s"),
        rows.floor(case, "first_write_allowed", [FIRST_WRITE_S], "s"),
        rows.row(
            case,
            "first_write_scan",
            beside(saved.of(SCAN, "write"), plain, dirty),
            "s",
            "first_write_allowed",
            [FIRST_WRITE_S],
        ),  # fmt: skip
    ]
    for name in names:
        perceived, durable = saved.of(name, "perceived"), saved.of(name, "durable")
        made += [
            rows.row(case, name, perceived, "s", COPY, copy),
            rows.row(case, f"{name}_durable", durable, "s", WHOLE, saved.of(WHOLE, "perceived")),
        ]
        if name not in CHANGED:
            continue
        allowed = 1.25 * dirty + MIB * bytes / GIB
        made += [
            rows.floor(case, f"{name}_bytes_allowed", [allowed], "bytes"),
            rows.row(case, f"{name}_bytes", [written[name]], "bytes", f"{name}_bytes_allowed", [allowed], 1),
        ]
        if name == PAGES:
            book = bookkept_s(perceived, copy, scan, staged, dirty)
            first = beside(saved.of(name, "write"), plain, dirty)
            made += [
                rows.row(
                    case, f"{name}_bookkeeping", book, "s", "bookkeeping_allowed", [bookkeeping_s(bytes, part)], 1
                ),
                rows.row(case, f"{name}_bookkeeping_to_list", book, "s", LIST, saved.of(LIST, "perceived")),
                rows.row(case, f"{name}_first_write", first, "s", "first_write_allowed", [FIRST_WRITE_S], 1),
            ]
    return made


def often_rows(case, saved, bytes, part, staged):
    """Totals of many revisions: the time, and the bytes written to the disk with roots and journal, as averages for one
    revision."""
    dirty = part * bytes
    copy, scan = saved.of(COPY, "perceived"), saved.of(SCAN, "perceived")
    perceived, durable, stored = (saved.of(PAGES, measure) for measure in ("perceived", "durable", "stored"))
    book = bookkept_s(perceived, copy, scan, staged, dirty)
    allowed = 1.25 * dirty + MIB * bytes / GIB
    return [
        rows.floor(case, COPY, copy, "s"),
        rows.floor(case, LIST, saved.of(LIST, "perceived"), "s"),
        rows.floor(case, "bookkeeping_allowed", [bookkeeping_s(bytes, part)], "s"),
        rows.floor(case, f"{PAGES}_bytes_allowed", [allowed], "bytes"),
        rows.row(case, PAGES, perceived, "s", COPY, copy),
        rows.row(case, f"{PAGES}_longest", [max(perceived)], "s", COPY, copy),
        rows.row(case, f"{PAGES}_durable", durable, "s", COPY, copy),
        rows.row(case, f"{PAGES}_durable_longest", [max(durable)], "s", COPY, copy),
        rows.row(case, f"{PAGES}_stored", [sum(stored) / len(stored)], "bytes", f"{PAGES}_bytes_allowed", [allowed], 1),
        rows.row(case, f"{PAGES}_bookkeeping", book, "s", "bookkeeping_allowed", [bookkeeping_s(bytes, part)], 1),
        rows.row(case, f"{PAGES}_bookkeeping_to_list", book, "s", LIST, saved.of(LIST, "perceived")),
    ]


def beside(writes, plain, dirty):
    """The additional seconds for each page."""
    return [max(0, seconds / (dirty / PAGE) - least) for seconds, least in zip(writes, plain)]


def restart_rows(case, restarted, revisions):
    """`_reads`: the same reads without Mainstay."""
    whole = restarted.of(WHOLE, "restored")
    made = [rows.floor(case, WHOLE, whole, "s")]
    for name in (PAGES, HASHES):
        after, restored, bare = (
            f"{name}_after_{revisions}",
            *(restarted.of(name, measure) for measure in ("restored", "reads")),
        )
        made.append(rows.row(case, after, restored, "s", WHOLE, whole, RESTORE_MAX))
        made.append(rows.floor(case, f"{name}_reads", bare, "s"))
        made.append(rows.row(case, f"{after}_to_reads", restored, "s", f"{name}_reads", bare, READS_MAX))
    return made


def snapshot_rows(case, saved, names):
    """All memory is swept right after t2. The loss of the program is the time until t2, and the longer time of the
    sweep compared with a sweep beside a plain copy."""
    copy, clone, calm = saved.of(COPY, "perceived"), saved.of(CLONE, "perceived"), saved.of(COPY, "sweep")
    made = [
        rows.floor(case, COPY, copy, "s"),
        rows.floor(case, CLONE, clone, "s"),
        rows.floor(case, "sweep", calm, "s"),
    ]
    for name in (CLONE, *names):
        perceived, sweep = saved.of(name, "perceived"), saved.of(name, "sweep")
        lost = [max(0, t2 + taken - least) for t2, taken, least in zip(perceived, sweep, calm)]
        is_huge, is_forced = name.startswith(HUGE), name.endswith(FORCED)
        if name != CLONE:
            target = HUGE_MAX if is_huge and is_forced else None
            made.append(rows.row(case, name, perceived, "s", COPY, copy, target))
            made.append(rows.row(case, f"{name}_durable", saved.of(name, "durable"), "s", COPY, copy))
        made.append(
            rows.row(case, f"{name}_slowdown", lost, "s", COPY, copy, SLOWDOWN_MAX if is_huge and is_forced else None)
        )
        if is_forced and not is_huge:
            made.append(rows.row(case, f"{name}_to_clone", perceived, "s", CLONE, clone, CLONE_MAX))
    return made


def program_rows(case, runs, calm, spaces):
    """`runs`: the clocks by side; `calm`: those without checkpoints. `spaces`: by side, the figures of the newest
    revision of each run."""
    least = [max(run["run"]) for run in calm]
    first = next(iter(runs))
    made = [rows.floor(case, "run_none", least, "s")]
    for name in runs:
        took = [max(run["run"]) for run in runs[name]]
        made.append(rows.row(case, f"{name}_run", took, "s", "run_none", least))
        for metric, unit in (("perceived", "s"), ("durable", "s"), ("bytes", "bytes")):
            values, against = ([one[metric] for one in spaces[side]] for side in (name, first))
            made.append(rows.row(case, f"{name}_{metric}", values, unit, f"{first}_{metric}", against))
    return made
