"""The cost of a checkpoint and of a restart, compared with the limits of the machine.

make bench NAME=path            writes bench/out/path.json; QUICK=1: small, within a minute
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import arguments, machine, mpi, rows

HERE = Path(__file__).resolve().parent
MIB = 2**20
SHAPES = ((1, 1024), (4, 256))  # ranks, MiB a rank
SMALL_RANKS, QUICK_RANKS, SMALL = (4, 16, 64), (4,), 4096  # bytes a rank: what a checkpoint costs besides its bytes
REDUCES_MAX = 2  # so many bare all-reduces may a small checkpoint take
FIRST_MAX = 0.5  # of the time that new files take may a checkpoint take that comes at once
POOL_MIB = 64  # of the node
QUICK_PART = 8
RATIO_MAX = 1.15
MEMORY_BYTES_MAX = 16 * MIB  # a rank, beside the pool
LIMIT_S = 900  # of one job
OFTEN_S = 0.2  # between checkpoints that are due before the last one is durable
PYTHON_RATIO_MAX = 1.03  # of what C takes
ITEMS = 10_000
ITEM_BYTES = 64
ITEM_S_MAX = 10e-6
IMPORT_S_MAX = 0.1
IMPORT = "import time; t = time.perf_counter(); import mainstay; print(time.perf_counter() - t)"


def options():
    quick = arguments.QUICK
    parser = arguments.Parser(__doc__, "path.json")
    parser.add_argument("--part", type=int, default=QUICK_PART if quick else 1, help="all sizes are divided by this")
    parser.add_argument("--rounds", type=int, default=3 if quick else 9)
    small_ranks = QUICK_RANKS if quick else SMALL_RANKS
    parser.add_argument("--small-ranks", type=int, nargs="+", default=small_ranks, help="that save a few KiB each")
    parser.add_argument("--chunk-mib", type=int, default=4)
    parser.add_argument("--io-threads", type=int, default=0, help="of each rank; 0: as the library sees fit")
    parser.add_argument("--only", default="", help="only cases with this in their name")
    return parser.parse_args()


def holding(size, chunk):
    """Bytes of a pool for the region of a rank: the data and one more chunk, and one chunk for the small region beside
    it."""
    return size + 2 * chunk


def cases(o):
    """Name, ranks, bytes a rank, settings of the program."""
    for ranks, mib in SHAPES:
        size, small = mib * MIB // o.part, POOL_MIB * MIB // o.part
        chunk = min(o.chunk_mib * MIB, small // 2)
        shape = f"{ranks} x {size // MIB} MiB"
        yield f"{shape}, default settings", ranks, size, {}
        yield f"{shape}, large pool", ranks, size, {"pool_bytes": ranks * holding(size, chunk), "chunk_bytes": chunk}
        yield f"{shape}, pool {small // MIB} MiB", ranks, size, {"pool_bytes": small, "chunk_bytes": chunk}
        yield f"{shape}, direct", ranks, size, {"direct": 1, "pool_bytes": small, "chunk_bytes": chunk}
    for ranks in o.small_ranks:
        for way, settings in (("default settings", {}), ("direct", {"direct": 1})):
            yield f"{ranks} x {SMALL // 1024} KiB, {way}", ranks, SMALL, settings


def need_room(o):
    """Three revisions in the space and a raw file."""
    needed = 4 * max(ranks * mib for ranks, mib in SHAPES) * MIB // o.part + 256 * MIB // o.part
    o.scratch.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(o.scratch).free
    print(f"needs {needed / 2**30:.1f} GiB of the disk while it runs ({free / 2**30:.1f} free in {o.scratch})")
    if free < needed:
        raise SystemExit("too little room on the disk; --scratch names another place")


def faster(measured, *sides):
    return min(sides, key=lambda side: rows.median(measured.of(side)))


def measure(o, name, ranks, size, settings, program):
    """All rows of a case: a job that saves, and a job that restarts."""
    settings = {"bytes": size, "rounds": o.rounds, "io_threads": o.io_threads, **settings}
    with tempfile.TemporaryDirectory(prefix="path-", dir=o.scratch) as scratch:
        words = [f"{key}={value}" for key, value in settings.items()] + [scratch]
        saved = mpi.Measured(mpi.run(ranks, [program, "save", *words], scratch, LIMIT_S))
        restarted = mpi.Measured(mpi.run(ranks, [program, "restart", *words], scratch, LIMIT_S))
    direct = "direct" in settings
    pool = 0 if direct else settings.get("pool_bytes", ranks * holding(size, o.chunk_mib * MIB))
    # With a few KiB, the time for the bytes is negligible.
    target = None if direct or size < MIB else RATIO_MAX
    perceived_target = target if pool > ranks * size else None
    reduces_target = REDUCES_MAX if size < MIB and not direct else None
    return [
        *save_rows(name, saved, target, perceived_target, reduces_target),
        *restart_rows(name, restarted, ranks * size, target),
        *memory_rows(name, saved, restarted, pool),
    ]


def save_rows(case, saved, target, perceived_target, reduces_target):
    def one(metric, name, reference, target=None):
        return rows.row(case, metric, saved.of("checkpoint", name), "s", reference, saved.of(reference), target)

    def first(metric, name):
        return rows.row(
            case, metric, saved.first("checkpoint", name), "s", "raw_write_new", saved.first("raw_write_new")
        )

    phases = ("communication", "buffer_wait", "copy", "other", "resume")
    floors = ("copy", "copy_streaming", "all_reduce", "raw_write_1", "raw_write_2")
    return [
        *(rows.floor(case, side, saved.of(side), "s") for side in floors),
        one("perceived", "perceived", "copy", perceived_target),
        one("perceived_to_streaming", "perceived", "copy_streaming"),
        one("perceived_to_all_reduce", "perceived", "all_reduce", reduces_target),
        *(one(f"perceived_{phase}", phase, "copy") for phase in phases),
        one("durable", "durable", faster(saved, "raw_write_1", "raw_write_2"), target),
        rows.floor(case, "raw_write_new", saved.first("raw_write_new"), "s"),
        first("perceived_first", "perceived"),
        first("durable_first", "durable"),
    ]


def first_rows(o, program):
    """A checkpoint right after its space is opened. Each checkpoint has a space of its own."""
    made = []
    for ranks, mib in SHAPES:
        case, size, printed = f"{ranks} x {mib // o.part} MiB, at once", mib * MIB // o.part, []
        if o.only not in case:
            continue
        for round_ in range(max(2, o.rounds // 2)):
            with tempfile.TemporaryDirectory(prefix="path-", dir=o.scratch) as scratch:
                words = [f"bytes={size}", f"warm_ups={round_}", scratch]
                printed += mpi.run(ranks, [program, "first", *words], scratch, LIMIT_S)
        measured = mpi.Measured(printed)
        new = measured.of("raw_write_new")
        of_case = [
            rows.floor(case, "raw_write_new", new, "s"),
            rows.floor(case, "new_memory", measured.of("new_memory"), "s"),
        ]
        for metric, target in (("perceived", FIRST_MAX), ("buffer_wait", None), ("durable", None)):
            taken = measured.of("checkpoint", metric)
            of_case.append(rows.row(case, metric, taken, "s", "raw_write_new", new, target))
        print(rows.table(of_case), flush=True)
        made += of_case
    return made


def often_rows(o, program):
    """Ten checkpoints that are due faster than they become durable. Each is either put off or waits for the one
    before."""
    ranks, mib = SHAPES[-1]
    case, size = f"{ranks} x {mib // o.part} MiB, {OFTEN_S:g} s apart", mib * MIB // o.part
    if o.only not in case:
        return []
    told = {}
    for way in ("now", "later"):
        due = {"EVERY_SECONDS": OFTEN_S, "AGREE_SECONDS": OFTEN_S / 10, "WHEN_BUSY": way}
        before = ["env", *(f"MAINSTAY_{name}={value}" for name, value in due.items())]
        with tempfile.TemporaryDirectory(prefix="path-", dir=o.scratch) as scratch:
            words = [f"bytes={size}", f"rounds={max(2, o.rounds // 3)}", scratch]
            told[way] = mpi.Measured(mpi.run(ranks, [*before, program, "often", *words], scratch, LIMIT_S))
    made = []
    for metric in ("longest", "inside"):
        now, later = (told[way].of("often", metric) for way in ("now", "later"))
        made += [rows.floor(case, f"{metric}_now", now, "s"), rows.row(case, metric, later, "s", f"{metric}_now", now)]
    print(rows.table(made), flush=True)
    return made


def restart_rows(case, restarted, data_bytes, target):
    floors = ("raw_read_1", "raw_read_2")
    reference = faster(restarted, *floors)

    def one(metric, name, target=None):
        return rows.row(case, metric, restarted.of("restart", name), "s", reference, restarted.of(reference), target)

    read = restarted.of("restart", "device_bytes", together=sum)
    return [
        *(rows.floor(case, side, restarted.of(side), "s") for side in floors),
        one("restart", "restart", target),
        one("restart_open", "open"),
        one("restart_read", "restore"),
        rows.floor(case, "data", [data_bytes], "bytes"),
        rows.row(case, "restart_device_reads", read, "bytes", "data", [data_bytes]),
    ]


def memory_rows(case, saved, restarted, pool):
    """Each rank sees all of the node's pool."""
    allowed = [pool + MEMORY_BYTES_MAX]

    def one(metric, measured):
        return rows.row(case, metric, measured.of("memory", "bytes"), "bytes", "memory_allowed", allowed, 1)

    return [
        rows.floor(case, "memory_allowed", allowed, "bytes"),
        one("memory", saved),
        one("memory_restart", restarted),
    ]


def python_cases(o):
    """For each case, which C and Python save in turns: name, ranks, items a rank, bytes a rank, settings."""
    for ranks, mib in SHAPES:
        size = mib * MIB // o.part
        chunk = min(o.chunk_mib * MIB, size // 4)
        yield f"{ranks} x {size // MIB} MiB, Python", ranks, 1, size, ranks * holding(size, chunk), chunk
    yield f"{ITEMS} items, Python", 1, ITEMS, ITEMS * ITEM_BYTES, 8 * MIB, 4 * MIB


def python_rows(o, library, name, ranks, items, size, *settings):
    printed = []
    # The order in which the pools are made matters more than the language: each side goes first once.
    for first in ("c", "python"):
        with tempfile.TemporaryDirectory(prefix="path-", dir=o.scratch) as scratch:
            program = [mpi.PYTHON, HERE / "path" / "python" / "program.py", library, first, scratch]
            printed += mpi.run(ranks, [*program, items, size, *settings, 2 * o.rounds], scratch, LIMIT_S)
    measured = mpi.Measured(printed)
    if items > 1:
        allowed = rows.floor(name, "item_allowed", [ITEM_S_MAX], "s")
        sides = [(side, [value / items for value in measured.of(side, "perceived")]) for side in ("c", "python")]
        made = [rows.row(name, f"item_{side}", taken, "s", "item_allowed", [ITEM_S_MAX], 1) for side, taken in sides]
        return [allowed, *made]
    made = []
    for metric in ("perceived", "durable"):
        c, python = measured.of("c", metric), measured.of("python", metric)
        made.append(rows.floor(name, f"{metric}_c", c, "s"))
        made.append(rows.row(name, f"{metric}_python", python, "s", f"{metric}_c", c, PYTHON_RATIO_MAX))
    return made


def import_rows(o, name):
    taken = [float(subprocess.check_output([mpi.PYTHON, "-c", IMPORT], timeout=LIMIT_S)) for _ in range(o.rounds)]
    allowed = rows.floor(name, "import_allowed", [IMPORT_S_MAX], "s")
    return [allowed, rows.row(name, "import", taken, "s", "import_allowed", [IMPORT_S_MAX], 1)]


def main():
    o = options()
    need_room(o)
    print(machine.describe(o.scratch), flush=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        program = Path(folder) / "path"
        mpi.build(HERE / "path", program)
        for name, ranks, size, settings in cases(o):
            if o.only in name:
                of_case = measure(o, name, ranks, size, settings, program)
                print(rows.table(of_case), flush=True)
                made += of_case
        made += first_rows(o, program)
        made += often_rows(o, program)
        beside = Path(folder) / "beside.so"
        mpi.build(HERE / "path" / "python", beside, "-shared", "-fPIC")
        for name, *case in python_cases(o):
            if o.only in name:
                of_case = python_rows(o, beside, name, *case)
                print(rows.table(of_case), flush=True)
                made += of_case
        if o.only in (name := "import mainstay"):
            print(rows.table(of_case := import_rows(o, name)), flush=True)
            made += of_case
    rows.end(o.out / "path.json", made)


if __name__ == "__main__":
    main()
