"""The programs of the benchmark: compiled for slots by `mainstay mpicc`, and natively by the mpicc of each MPI."""

from pathlib import Path

from harness import mpi as harness

from mpi import MPICH, OPENMPI, ROOT

C = Path(__file__).resolve().parent / "c"
MAINSTAY = ROOT / "target" / "release" / "mainstay"
MPIS = (OPENMPI, MPICH)
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'capi' / 'ranks'}")
# The native side is as position independent as the rank in a slot.
NATIVE = ("-std=gnu11", "-fPIE", "-pie")
SOURCES = {
    "latency": ("latency.c", "batches.c"),
    "neighbours": ("neighbours.c",),
    "tables": ("tables.c", "unchanged.c"),
    "work": ("work.c",),
}


def build(folder):
    """Compiles all of them below `folder`: `slots`, and a folder for each MPI."""
    for name, sources in {**SOURCES, "gate": ("gate.c", "batches.c")}.items():
        compiled(folder / "slots" / name, [MAINSTAY, "mpicc", *FLAGS], sources)
    for mpi_ in MPIS:
        for name in ("latency", "neighbours"):
            compiled(folder / mpi_.name / name, [mpi_.command("mpicc"), *FLAGS, *NATIVE], SOURCES[name])
    by_hand = [C / name for name in ("tables.c", "by_hand.c")]
    harness.library.build(folder / OPENMPI.name / "tables", by_hand, "-O2", "-D_GNU_SOURCE")


def compiled(program, words, sources):
    program.parent.mkdir(exist_ok=True)
    words, sources = [*words, *(C / name for name in sources)], [C / name for name in sources]
    harness.library.once(program, words, sources, lambda made: harness.library.run([*words, "-o", made]))
