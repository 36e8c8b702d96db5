"""The pieces that a process writes at a checkpoint, by size and in order, as published for the process
images of the NAS benchmarks LU and BT, class C, 64 processes (paper 000, Table I and Figure 2).

The published text gives shares and totals. The sizes between are made up, once and for all: the same
table gives the same pieces on every machine.
"""

from dataclasses import dataclass

KIB, MIB = 2**10, 2**20
PAGE = 4 * KIB
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Class:
    """Writes of `low` bytes up to, but not including, `high`, in multiples of `grain`."""

    low: int
    high: int
    grain: int
    writes: int
    bytes: int  # of all of them, to within the grain


@dataclass(frozen=True)
class Mix:
    name: str
    bytes: int  # of a process
    classes: tuple


# Small writes are registers, tables and headers; from 4 KiB on they are pages of the process's memory.
LU = Mix(
    "LU",
    23 * MIB,
    (
        Class(8, 64, 4, 500, 15 * KIB),
        Class(64, 4 * KIB, 8, 101, 66 * KIB),
        Class(4 * KIB, 64 * KIB, PAGE, 361, 2826 * KIB),
        Class(64 * KIB, 512 * KIB, PAGE, 3, 500 * KIB),
        Class(512 * KIB + PAGE, 8 * MIB, PAGE, 10, 20160 * KIB),
    ),
)
BT = Mix(
    "BT",
    40 * MIB,
    (
        Class(8, 64, 4, 541, 16 * KIB),
        Class(64, 4 * KIB, 8, 110, 74 * KIB),
        Class(4 * KIB, 64 * KIB, PAGE, 391, 4915 * KIB),
        Class(64 * KIB, 512 * KIB, PAGE, 4, 730 * KIB),
        Class(512 * KIB + PAGE, 16 * MIB, PAGE, 11, 35225 * KIB),
    ),
)
MIXES = (LU, BT)


def sizes(of):
    """The sizes of one class: many at its low end, few at its high end."""
    power = (of.high - of.low) / (of.bytes / of.writes - of.low) - 1
    for i in range(of.writes):
        exact = of.low + (of.high - of.low) * ((i + 0.5) / of.writes) ** power
        yield min(round(exact / of.grain) * of.grain, of.high - of.grain)


def scattered(count):
    """The numbers 0 to count-1, each golden part of the way after the one before: neighbours differ."""
    return sorted(range(count), key=lambda i: i * GOLDEN % 1)


def pieces(mix):
    """The sizes in the order of a process image: the classes run through each other, and each of them up
    and down through its sizes."""
    placed = []
    for number, of in enumerate(mix.classes):
        of_class = list(sizes(of))
        for i, at in enumerate(scattered(of.writes)):
            placed.append(((i + 0.5) / of.writes, number, of_class[at]))
    made = [size for _, _, size in sorted(placed)]
    # The rest of the rounding goes to the largest.
    made[made.index(max(made))] += mix.bytes - sum(made)
    return made
