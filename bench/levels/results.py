"""Rows of the benchmark `levels`, from the printed lines of its jobs."""

from harness import rows
from run import clocked

PERCEIVED_MAX = 1.15  # of a copy
SLOWDOWN_MAX = 1.3  # of a copy and its way to another node
BLOCKING_MAX = 1.2
RESTART_MAX = 1.3
IDLE_MAX = 1  # % of a run, inside Mainstay
BESIDE_BYTES_MAX = 16 * 2**20  # a rank, beside the shards
PHASES = ("communication", "buffer_wait", "copy", "other", "resume")
SHARED, DISK, MEMORY, MEMORY_SLOW, DISK_DOUBLE = WAYS = ("shared", "disk", "memory", "memory_slow", "disk_double")


def background_rows(case, measured):
    """Saving in the background: the wait of the program, and its loss until all copies are complete."""
    copy, agreed, both, calm = (measured.of(side) for side in ("copy", "copy_agreed", "copy_exchange", "calm"))
    perceived, going_on = measured.of("working", "perceived"), measured.of("copy_going_on")
    took = measured.of("working")
    slowdown = [max(0, with_it - without) for with_it, without in zip(took, calm)]
    used, used_calm = (measured.of(side, "processor", together=mean) for side in ("working", "calm"))

    def one(metric, values, reference, against, target=None):
        return rows.row(case, metric, values, "s", reference, against, target)

    return [
        rows.floor(case, "copy", copy, "s"),
        rows.floor(case, "copy_agreed", agreed, "s"),
        rows.floor(case, "copy_going_on", going_on, "s"),
        rows.floor(case, "copy_exchange", both, "s"),
        rows.floor(case, "calm", calm, "s"),
        one("perceived", perceived, "copy", copy, PERCEIVED_MAX),
        one("perceived_together", perceived, "copy_agreed", agreed),
        one("perceived_going_on", perceived, "copy_going_on", going_on),
        *(one(f"perceived_{phase}", measured.of("working", phase), "copy", copy) for phase in PHASES),
        one("slowdown", slowdown, "copy_exchange", both, SLOWDOWN_MAX),
        one("slowdown_processor", [max(0, a - b) for a, b in zip(used, used_calm)], "copy_exchange", both),
        one("working", took, "calm", calm),
        one("left", measured.of("working", "left"), "copy_exchange", both),
    ]


def mean(values):
    return sum(values) / len(values)


def blocking_rows(case, measured):
    """Coordinated and blocking, as published."""
    both, verified = measured.of("copy_exchange"), measured.of("copy_exchange_verified")
    perceived = measured.of("saving", "perceived")
    return [
        rows.floor(case, "copy", measured.of("copy"), "s"),
        rows.floor(case, "copy_exchange", both, "s"),
        rows.floor(case, "copy_exchange_verified", verified, "s"),
        rows.row(case, "perceived", perceived, "s", "copy_exchange", both, BLOCKING_MAX),
        rows.row(case, "perceived_verified", perceived, "s", "copy_exchange_verified", verified),
        *(rows.row(case, f"perceived_{phase}", measured.of("saving", phase), "s", "copy_exchange", both)
          for phase in PHASES),
    ]  # fmt: skip


def memory_rows(case, measured, bytes_each, ranks, shards):
    """`shards`: the number of shards in memory for each rank. Roots and hashes are stored beside them."""
    wanted, allowed = [bytes_each * shards], [BESIDE_BYTES_MAX]
    shared, own = measured.of("memory", "shared")[0] / ranks, max(0, measured.of("memory", "own")[0])
    beside = own + max(0, shared - wanted[0])
    return [
        rows.floor(case, "shards", wanted, "bytes"),
        rows.row(case, "shared", [shared], "bytes", "shards", wanted),
        rows.floor(case, "beside_allowed", allowed, "bytes"),
        rows.row(case, "resident", [own], "bytes", "beside_allowed", allowed),
        rows.row(case, "beside", [beside], "bytes", "beside_allowed", allowed, 1),
    ]


def restart_rows(case, measured):
    """Restarts of a job from the remaining memory of the nodes; `start_up` is the start of MPI, in the same job."""
    floor, start_up = measured.of("copy_transfer"), measured.of("restart", "start_up")
    verified, restart = measured.of("copy_transfer_verified"), measured.of("restart", "restart")

    def one(metric, name, target=None):
        return rows.row(case, metric, measured.of("restart", name), "s", "copy_transfer", floor, target)

    return [
        rows.floor(case, "copy_transfer", floor, "s"),
        one("restart", "restart", RESTART_MAX),
        one("restart_open", "open"),
        one("restart_restore", "restore"),
        rows.floor(case, "copy_transfer_verified", verified, "s"),
        rows.row(case, "restart_to_verified", restart, "s", "copy_transfer_verified", verified),
        rows.floor(case, "new_memory", measured.of("new_memory"), "s"),
        rows.floor(case, "start_up", start_up, "s"),
        rows.row(case, "job", measured.of("restart", "job"), "s", "start_up", start_up),
    ]


def run_rows(case, runs, checkpoints, portions):
    """Three cases of a run of jacobi3d. `runs`: by side, each with the clocks of every rank. `portions`: the time to
    allocate the memory of the portions."""
    took = {side: [max(run["run"]) for run in of_side] for side, of_side in runs.items()}
    idle = clocked.inside(runs["idle"], *clocked.CLOCKS)
    bare = [100 * a / b for a, b in zip(portions, took["none"])]
    each = [(a - b) / checkpoints for a, b in zip(took["saving"], took["idle"])]
    return [
        rows.floor(case, "run_none", took["none"], "s"),
        *(rows.row(case, f"run_{side}", took[side], "s", "run_none", took["none"]) for side in ("idle", "saving")),
        rows.floor(case, "in_mainstay_allowed", [IDLE_MAX], "%"),
        rows.row(case, "in_mainstay_idle", idle, "%", "in_mainstay_allowed", [IDLE_MAX], 1),
        rows.floor(case, "in_portions", bare, "%"),
        rows.row(case, "in_mainstay_beside_portions", idle, "%", "in_portions", bare),
        rows.row(case, "apart_idle", clocked.inside(runs["idle"], "apart"), "%"),
        *(rows.row(case, f"in_{clock}_idle", clocked.inside(runs["idle"], clock), "%") for clock in clocked.CLOCKS),
        *(rows.row(case, f"in_{clock}_saving", clocked.inside(runs["saving"], clock), "%") for clock in clocked.CLOCKS),
        rows.row(case, "checkpoint", [max(run["checkpoint"]) / checkpoints for run in runs["saving"]], "s"),
        rows.row(case, "checkpoint_whole", [max(0, value) for value in each], "s"),
    ]  # fmt: skip


def size_rows(case, measured_by_way, floors):
    """`floors`: the seconds that the disks or links of a way need for the bytes."""
    made = []
    for way, measured in measured_by_way.items():
        complete, floor = measured.of("saving"), floors.get(way)
        if floor is None:
            made.append(rows.floor(case, way, complete, "s"))
        else:
            made.append(rows.floor(case, f"{way}_floor", [floor], "s"))
            made.append(rows.row(case, way, complete, "s", f"{way}_floor", [floor]))
        made.append(rows.row(case, f"{way}_perceived", measured.of("saving", "perceived"), "s", way, complete))
    return made
