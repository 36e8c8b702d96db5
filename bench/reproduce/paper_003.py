"""Ouyang, Gopalakrishnan, Panda: Accelerating Checkpoint Operation by Node-Level Write Aggregation on Multicore Systems
(slides)."""

from .figure import MORE, Claim, Figure, Here, mb, ms, one, per_cent, saved
from .paper_000 import IMAGES, MIXES, PROFILED, SIZES, THREE_PHASES, THRESHOLDS, bars_of_both

PAPER = "003"
TITLE = "Write aggregation in a buffer of the node"
REDUCED = {"LU": (10.0, 13.3, 26.4, 30.8), "BT": (9.7, 12.2, 18.0, 32.5), "CG": (9.4, 14.1, 25.0, 27.5)}
SHARES = ("below 4 KiB", "4 to 512 KiB", "above 512 KiB")


def share(part, *sizes):
    """The part of all of LU's writes, bytes or time in these classes of size, in per cent."""

    def find(results):
        found = [one("staging", "LU, profile", f"{part}_below_{size}", per_cent)(results) for size in sizes]
        return None if None in found else sum(found)

    return find


FIGURES = (
    Figure(
        "Slide 10", "The size and the writes of a checkpoint of a process", "table",
        here=Here(IMAGES, {"MB": {"metric": "bytes", "of": mb}, "writes": {"metric": "writes"}}),
        needs=PROFILED, why="the text of the slide has no numbers; paper 000, Table I, is the same measurement",
    ),
    Figure(
        "Slide 11", "Writes by size: their number, bytes and time", "bars", "% of all", groups=SHARES,
        published={("writes", SHARES[0]): 60, ("writes", SHARES[1]): 38, ("writes", SHARES[2]): 0.8,
                   ("bytes", SHARES[0]): 1.5, ("bytes", SHARES[1]): 20, ("bytes", SHARES[2]): 79,
                   ("time", SHARES[0]): 0.2, ("time", SHARES[1]): 65, ("time", SHARES[2]): 35},
        here=Here({label: {"size": size} for label, size in SIZES.items()},
                  {part: {"part": part} for part in ("writes", "bytes", "time")},
                  bench="staging", case="LU, profile", metric="{part}_below_{size}", of=per_cent),
        claims=(
            Claim("writes below 4 KiB", 60, share("writes", "64 B", "4 KiB"), unit="%"),
            Claim("bytes in writes above 512 KiB", 79, share("bytes", "more"), unit="%"),
            Claim("time in writes of 4 to 512 KiB", 65, share("time", "64 KiB", "512 KiB"), unit="%"),
            Claim("time in writes above 512 KiB", 35, share("time", "more"), unit="%"),
        ),
        needs=PROFILED, why="ext3 of 2009 spent much on each write of some pages; ext4 takes them nearly at the speed of large ones",
    ),
    Figure("Slide 12", "LU: writes, bytes and time by size", "bars", "% of all",
           here=Here({label: {"size": size} for label, size in SIZES.items()},
                     {part: {"part": part} for part in ("writes", "bytes", "time")},
                     bench="images", case="sweeps as large as LU*", metric="{part}_below_{size}", of=per_cent),
           needs=PROFILED, why="the text of the slide has no numbers; here is a whole program of that size, as a rank in a slot"),
    Figure("Slide 16", "A copy in memory and a write to a file, by size", "bars", "ms of a checkpoint of LU",
           here=Here({label: {"size": size} for label, size in SIZES.items()}, {"write": {"case": "LU, profile"}, "copy": {"case": "LU, profile of the pool"}},
                     bench="staging", metric="time_below_{size}", of=lambda row: 1e-6 * row["value"]),
           needs=PROFILED, why="the text of the slide has no numbers; it says that a copy is much cheaper for small writes, and nearly as dear for large ones"),
    Figure("Slides 17 to 20", "", drawing="the buffers of a rank and of the node, the chunks, and the way back"),
    Figure("Slide 23", "The phases of one checkpoint", "stacked", "ms",
           here=Here(bars_of_both({"original": "direct", **{f"{kib} KB": f"node_{kib}" for kib in THRESHOLDS}}), THREE_PHASES,
                     bench="staging", case="{mix}, node thresholds", metric="{side}_{phase}", of=ms),
           needs={"staging": ("node thresholds",)}, why="the text of the slide has no numbers"),
    Figure(
        "Slide 24", "How much less time a checkpoint takes, by threshold", "bars", "%", groups=tuple(REDUCED),
        published={(f"{kib} KB", mix): per for mix, of in REDUCED.items() for kib, per in zip(THRESHOLDS, of)},
        here=Here({**{mix: {"bench": "staging", "case": f"{mix}, node thresholds"} for mix in MIXES},
                   **{f"NAS {name}": {"bench": "images", "case": f"NAS {name.lower()}.*"} for name in REDUCED}},
                  {f"{kib} KB": {"metric": f"node_{kib}"} for kib in THRESHOLDS}, of=saved),
        claims=tuple(Claim(f"{mix}: less time with a threshold of {kib} KB", per, one("staging", f"{mix}, node thresholds", f"node_{kib}", saved), MORE, "%")
                     for mix in MIXES for kib, per in zip(THRESHOLDS, REDUCED[mix])),
        needs={"staging": ("node thresholds",), "images": ("NAS",)},
        why="fewer calls of the kernel save less than they did: a write of some pages costs little today, and the bytes are the same; CG needs NPB=DIR",
    ),
    Figure("Slide 25", "Memory of a node, by threshold", "bars", "MB",
           here=Here(MIXES, {f"{kib} KB": {"metric": f"node_{kib}"} for kib in THRESHOLDS}, bench="staging", case="{mix}, memory", of=mb),
           needs={"staging": ("memory",)}, why="the text of the slide has no numbers"),
)  # fmt: skip
