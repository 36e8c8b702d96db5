"""Calls, messages, and the processor time of a program that computes."""

from harness import rows

from .jobs import measured, native_words, slots_words
from .programs import MPIS
from .turns import rounds

GATE_S, MESSAGE_S, CLOCK_S = 80e-9, 0.3e-6, 100e-9
ALONE, FOUR = 1.03, 1.12  # of the processor time natively
SIDE = 768  # cells of a rank that computes, squared: 9 MiB in two fields


def slots(folder, name, ranks, words, mpi=None, count=0):
    def run(scratch):
        return measured(*slots_words(f"{scratch}/space", ranks, [folder / "slots" / name, *words], mpi, count), scratch)

    return run


def native(folder, name, ranks, words, mpi):
    return lambda scratch: measured(*native_words(mpi, ranks, [folder / mpi.name / name, *words]), scratch)


def of(found, side):
    return [one[side] for one in found]


def allowed(case, metric, seconds, reference="allowed", most=()):
    """A row against a number of seconds, or against the values of another row and that number."""
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
    """The processor time of a program that computes. One rank is its own neighbour, so that no process waits. Four ranks of
    a process do as much work as four such runs, one after another."""
    words = [SIDE, o.steps]
    sides = {f"slots, {ranks}": slots(folder, "neighbours", ranks, words) for ranks in (1, 4)}
    for mpi in MPIS:
        sides[f"native, {mpi.name}"] = native(folder, "neighbours", 1, words, mpi)
        sides[f"native of 2, {mpi.name}"] = native(folder, "neighbours", 2, words, mpi)
        sides[f"slots of 2, {mpi.name}"] = slots(folder, "neighbours", 2, words, mpi, 2)
    found = {name: of(one, "cpu") for name, one in rounds(o, sides).items()}
    for mpi in MPIS:
        natively, case = found[f"native, {mpi.name}"], f"computing, {mpi.name}"
        fourfold = [4 * value for value in natively]
        yield rows.floor(case, "native", natively, "s")
        yield rows.row(case, "one_rank", found["slots, 1"], "s", "native", natively, ALONE)
        yield rows.floor(case, "native_4_times", fourfold, "s")
        yield rows.row(case, "four_ranks", found["slots, 4"], "s", "native_4_times", fourfold, FOUR)
        natively = found[f"native of 2, {mpi.name}"]
        yield rows.floor(case, "native_of_2", natively, "s")
        yield rows.row(case, "one_rank_of_2", found[f"slots of 2, {mpi.name}"], "s", "native_of_2", natively, ALONE)


CASES = (calls, within, between, computing)
