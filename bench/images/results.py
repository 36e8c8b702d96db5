"""Rows of the benchmark `images`, from the records of its spaces."""

from harness import profile, rows

PHASES = ("communication", "buffer_wait", "copy", "other", "resume")
DIRECT = "direct"


def slowest(revision):
    """The phases of the rank that the job waited for longest."""
    return max((shard["phases"] for shard in revision["shard_list"]), key=lambda phases: phases["perceived_ns"])


def seconds(runs, name):
    """The median of the checkpoints of each run, of one of their times."""
    return [rows.median([1e-9 * slowest(one)[f"{name}_ns"] for one in run.revisions]) for run in runs]


def image_rows(case, found, calm):
    """`found`: for each side its runs. `calm`: the runs without checkpoints, of the same rounds."""
    by_name = {side.name: runs for side, runs in found.items()}
    none, direct = [run.seconds for run in calm], seconds(by_name[DIRECT], "perceived")
    yield from profile.profile_rows(case, by_name[DIRECT][0].revisions[-1])
    yield rows.floor(case, "run_none", none, "s")
    yield rows.floor(case, DIRECT, direct, "s")
    for name, runs in by_name.items():
        perceived, took = seconds(runs, "perceived"), [run.seconds for run in runs]
        if name != DIRECT:
            yield rows.row(case, name, perceived, "s", DIRECT, direct)
        for phase in PHASES:
            yield rows.row(case, f"{name}_{phase}", seconds(runs, phase), "s", name, perceived)
        yield rows.row(case, f"{name}_durable", seconds(runs, "durable"), "s", name, perceived)
        yield rows.row(case, f"{name}_run", took, "s", "run_none", none)
        overhead = [100 * (one / other - 1) for one, other in zip(took, none)]
        yield rows.row(case, f"{name}_overhead", overhead, "%")
