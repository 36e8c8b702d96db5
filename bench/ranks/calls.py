"""Calls, messages, and the processor time of a program that computes."""

from harness import rows

from .jobs import measured, native_words, slots_words
from .programs import MPIS
from .turns import rounds

GATE_S, MESSAGE_S, CLOCK_S = 80e-9, 0.3e-6, 100e-9
ALONE, FOUR = 1.03, 1.12  # of the native processor time
SIDE = 768  # cells along each side of a rank's block: two fields have 9 MiB


def slots(folder, name, ranks, words, mpi=None, count=0):
    def run(scratch):
        return measured(*slots_words(f"{scratch}/space", ranks, [folder / "slots" / name, *words], mpi, count), scratch)

    return run


def native(folder, name, ranks, words, mpi):
    return lambda scratch: measured(*native_words(mpi, ranks, [folder / mpi.name / name, *words]), scratch)


def of(found, side):
    return [one[side] for one in found]


def allowed(case, metric, seconds, reference="allowed", most=()):
    """Rows that compare a metric with `seconds`, or with `most` plus `seconds`."""
    against = [value + seconds for value in most] or [seconds]
    return [rows.floor(case, reference, against, "s"), rows.row(case, *metric, "s", reference, against, 1)]


def calls(o, folder):
    sides = {"slots": slots(folder, "latency", 1, [o.batches]), "gate": slots(folder, "gate", 1, [o.batches])}
    sides |= {mpi.name: native(folder, "latency", 1, [o.batches], mpi) for mpi in MPIS}
    found = rounds(o, sides)
    yield from allowed("gate", ("slots", of(found["gate"], "gate")), GATE_S)
    for call in ("wtime", "clock_gettime"):
        yield from allowed(call, ("slots", of(found["slots"], call)), CLOCK_S)
        for mpi in MPIS:
            yield rows.floor(call, mpi.name, of(found[mpi.name], call), "s")
    for mpi in MPIS:
        natively = of(found[mpi.name], "iprobe")
        case = f"iprobe, {mpi.name}"
        yield rows.floor(case, "native", natively, "s")
        yield rows.row(case, "slots", of(found["slots"], "iprobe"), "s", "native", natively)


def within(o, folder):
    """Half a round trip between two ranks of a process."""
    found = rounds(o, {"slots": slots(folder, "latency", 2, [o.batches])})["slots"]
    small, large, copy = ([value / 2 for value in of(found, name)] for name in ("trip_8", "trip_262144", "copy_262144"))
    yield from allowed("within a process, 8 B", ("slots", small), MESSAGE_S)
    case = "within a process, 256 KiB"
    yield rows.floor(case, "copy", copy, "s")
    yield rows.row(case, "slots_to_copy", large, "s", "copy", copy)
    yield from allowed(case, ("slots", large), MESSAGE_S, "copy_allowed", copy)


def between(o, folder):
    """Half a round trip between two processes, under each MPI and natively."""
    sides = {}
    for mpi in MPIS:
        sides[f"slots {mpi.name}"] = slots(folder, "latency", 2, [o.batches], mpi, 2)
        sides[f"native {mpi.name}"] = native(folder, "latency", 2, [o.batches], mpi)
    found = rounds(o, sides)
    for mpi in MPIS:
        for side, size in (("trip_8", "8 B"), ("trip_262144", "256 KiB")):
            case = f"between processes, {size}, {mpi.name}"
            ours, natively = (
                [value / 2 for value in of(found[f"{kind} {mpi.name}"], side)] for kind in ("slots", "native")
            )
            yield rows.floor(case, "native", natively, "s")
            yield rows.row(case, "slots_to_native", ours, "s", "native", natively)
            yield from allowed(case, ("slots", ours), MESSAGE_S, "native_allowed", natively)


def computing(o, folder):
    """The processor time of a program that computes. A single rank is its own neighbour, so no process waits. Four ranks in
    slots are compared with one native rank of four blocks, which has the same work and as much memory."""
    one, four = [SIDE, o.steps, 1], [SIDE, o.steps, 4]
    sides = {f"slots, {ranks}": slots(folder, "neighbours", ranks, one) for ranks in (1, 4)}
    for mpi in MPIS:
        sides[f"native, {mpi.name}"] = native(folder, "neighbours", 1, one, mpi)
        sides[f"native 4 blocks, {mpi.name}"] = native(folder, "neighbours", 1, four, mpi)
        sides[f"native of 2, {mpi.name}"] = native(folder, "neighbours", 2, one, mpi)
        sides[f"slots of 2, {mpi.name}"] = slots(folder, "neighbours", 2, one, mpi, 2)
    found = {name: of(runs, "cpu") for name, runs in rounds(o, sides).items()}
    for mpi in MPIS:
        case = f"computing, {mpi.name}"
        for reference, metric, side, target in (
            ("native", "one_rank", "slots, 1", ALONE),
            ("native_4_blocks", "four_ranks", "slots, 4", FOUR),
            ("native_of_2", "one_rank_of_2", f"slots of 2, {mpi.name}", ALONE),
        ):
            natively = found[f"{reference.replace('_', ' ')}, {mpi.name}"]
            yield rows.floor(case, reference, natively, "s")
            yield rows.row(case, metric, found[side], "s", reference, natively, target)


CASES = (calls, within, between, computing)
