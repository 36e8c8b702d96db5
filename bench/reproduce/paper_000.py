"""Ouyang, Gopalakrishnan, Gangadharappa, Panda: Fast Checkpointing by Write Aggregation with Dynamic Buffer and Interleaving
on Multicore Architecture."""

from .figure import LESS, MORE, SAME, Claim, Figure, Here, gain, mb, ms, of_two, one, per_cent, rounded, saved

PAPER = "000"
TITLE = "Write aggregation with a dynamic buffer (WAG, WAG-DBI)"
THRESHOLDS, POOLS = (16, 64, 256, 512), (16, 32, 64, 128, 256, 512)
MIXES = {"LU": {"mix": "LU"}, "BT": {"mix": "BT"}}
PHASES = {
    "phase 1": {"phase": "communication"},
    "buffer": {"phase": "buffer_wait"},
    "memcpy": {"phase": "copy"},
    "other": {"phase": "other"},
    "phase 3": {"phase": "resume"},
}
THREE_PHASES = {
    "phase 1": {"phase": "communication"},
    "phase 2": {"phase": "copy"},
    "phase 3": {"phase": "resume"},
}
SIZES = {"< 64 B": "64 B", "< 4 KiB": "4 KiB", "< 64 KiB": "64 KiB", "< 512 KiB": "512 KiB", "more": "more"}
# Programs that are saved whole: the published pieces, our program in slots, and the user's NAS benchmarks in slots.
IMAGES = {
    "LU, published pieces": {"bench": "staging", "case": "LU, profile"},
    "BT, published pieces": {"bench": "staging", "case": "BT, profile"},
    "sweeps, 23 MB": {"bench": "images", "case": "sweeps as large as LU*"},
    "sweeps, 40 MB": {"bench": "images", "case": "sweeps as large as BT*"},
    "NAS LU": {"bench": "images", "case": "NAS lu.*"},
    "NAS BT": {"bench": "images", "case": "NAS bt.*"},
    "NAS SP": {"bench": "images", "case": "NAS sp.*"},
}
PROFILED = {"staging": ("profile",), "images": ("sweeps", "NAS")}
FASTER_DISK = "the disk of today takes 1 GB in a second, and that of 2009 took 30 MB, so there is less to wait for"
CORES = "8 ranks share 2 cores here and had 8 there, so a copy in memory takes a larger part"


def programs(runs):
    """Groups for whole runs: for each program and label the row of `run` and that of `images`."""
    made = {}
    for label, (run, image) in runs.items():
        for name in ("jacobi3d", "adi"):
            made[f"{name} {label}"] = {"bench": "run", "case": f"{name}, *, {run}", "metric": "overhead"}
    for label, (run, image) in runs.items():
        for name in ("lu", "bt"):
            metric = f"{image}_overhead"
            made[f"NAS {name.upper()} {label}"] = {"bench": "images", "case": f"NAS {name}.*", "metric": metric}
    return made


def run_figure(name, title, runs, published, claims, why):
    """The overhead of three checkpoints for a whole run."""
    groups = tuple(f"{mix} {label}" for label in runs for mix in ("LU", "BT"))
    return Figure(
        name, title, "bars", "overhead of 3 checkpoints, %", groups=groups,
        published={("overhead", group): per for group, per in published.items()},
        here=Here(programs(runs), {"overhead": {}}),
        claims=claims, needs={"run": (), "images": ("NAS",)}, why=why,
    )  # fmt: skip


def overhead(side):
    return one("run", f"adi, *, {side}", "overhead")


def bars_of_both(labels, mixes=("LU", "BT")):
    return {f"{mix} {label}": {"mix": mix, "side": side} for mix in mixes for label, side in labels.items()}


def thresholds(mix, published):
    return tuple(
        Claim(f"{mix}: less time with a threshold of {kib} KiB", per, one("staging", f"{mix}, rank thresholds", f"rank_{kib}", saved), MORE, "%")
        for kib, per in zip(THRESHOLDS, published)
    )  # fmt: skip


OLD_FILES = "ext3 of 2009 spent much on each write of some pages; ext4 takes them nearly at the speed of large ones"
# Of Figure 2: the text has numbers of LU alone.
BY_SIZE = (
    ("a", "LU", {"bench": "staging", "case": "LU, profile"},
     {("writes", "< 64 B"): 50, ("writes", "< 64 KiB"): 37, ("writes", "more"): 1,
      ("bytes", "< 64 B"): 0.5, ("bytes", "< 64 KiB"): 12, ("bytes", "more"): 86,
      ("time", "< 64 B"): 0.2, ("time", "< 64 KiB"): 50, ("time", "more"): 35},
     (Claim("time in writes of 4 to 64 KiB", 50, one("staging", "LU, profile", "time_below_64 KiB", per_cent), SAME, "%"),
      Claim("time in writes above 512 KiB", 35, one("staging", "LU, profile", "time_below_more", per_cent), SAME, "%"),
      Claim("a whole program of 23 MB: bytes in writes above 512 KiB", 86,
            one("images", "sweeps as large as LU*", "bytes_below_more", per_cent), SAME, "%")), ""),
    ("b", "BT", {"bench": "staging", "case": "BT, profile"}, {}, (), ""),
    ("c", "SP", {"bench": "images", "case": "NAS sp.*"}, {}, (), "SP without NPB=DIR: the paper gives no sizes of its pieces"),
)  # fmt: skip

FIGURES = (
    Figure(
        "Table I", "The size and the writes of a checkpoint of a process", "table",
        groups=("LU.C.64", "BT.C.64", "SP.C.64"),
        published={("MB", "LU.C.64"): 23, ("MB", "BT.C.64"): 40.0, ("MB", "SP.C.64"): 39.5,
                   ("writes", "LU.C.64"): 975, ("writes", "BT.C.64"): 1057, ("writes", "SP.C.64"): 1156},
        here=Here(IMAGES, {"MB": {"metric": "bytes", "of": mb}, "writes": {"metric": "writes"}}),
        claims=(
            Claim("LU in its published pieces: writes of a process", 975, one("staging", "LU, profile", "writes")),
            Claim("BT in its published pieces: writes of a process", 1057, one("staging", "BT, profile", "writes")),
        ),
        needs=PROFILED,
        why="the pieces are made from the published shares; a rank in a slot is saved in fewer pieces, one for each stretch of memory",
    ),
    run_figure(
        "Figure 1(a)", "Whole runs with three checkpoints, saved as BLCR does",
        {"original": ("direct", "direct")}, {"LU original": 13.86, "BT original": 20.77},
        (Claim("overhead without buffers", 20.77, overhead("direct"), LESS, "%"),), FASTER_DISK,
    ),
    Figure(
        "Figure 1(b)", "The phases of one checkpoint, saved as BLCR does", "stacked", "ms", groups=("LU", "BT"),
        published={("in all", "BT"): 11200},
        here=Here(MIXES, THREE_PHASES, bench="staging", case="{mix}, stages", metric="direct_{phase}", of=ms),
        claims=(
            Claim("BT: time of a checkpoint of a node", 11200, one("staging", "BT, stages", "direct", ms), LESS, "ms"),
        ),
        needs={"staging": ("stages",)}, why=FASTER_DISK + "; the text names the total alone, and says that phase 2 is most of it",
    ),
    *(
        Figure(
            f"Figure 2({letter})", f"{mix}: writes by size, their number, bytes and time", "bars", "% of all", "size of a write", tuple(SIZES),
            published, Here({label: {"size": size} for label, size in SIZES.items()}, {part: {"part": part} for part in ("writes", "bytes", "time")},
                            metric="{part}_below_{size}", of=per_cent, **where),
            claims, PROFILED, OLD_FILES, lacking,
        ) for letter, mix, where, published, claims, lacking in BY_SIZE
    ),
    Figure("Figure 3", "", drawing="the buffers of WAG, and the header of a chunk"),
    Figure("Figure 4", "", drawing="the pool and the I/O threads of WAG-DBI"),
    Figure(
        "Figure 5", "The program goes on at t2; its data are durable at t3", "bars", "ms after t1", groups=("LU", "BT"),
        here=Here(MIXES, {"t2": {"metric": "pool"}, "t3": {"metric": "pool_durable"}},
                  bench="staging", case="{mix}, stages", of=ms),
        needs={"staging": ("stages",)}, why="the paper draws the times and gives none",
    ),
    Figure(
        "Table II", "Memory of a node, by the threshold of WAG", "table", groups=("LU.C.64", "BT.C.64"),
        published={(f"{kib} KB", mix): mib for mix, of in (("LU.C.64", (42.6, 50.0, 78.2, 80)), ("BT.C.64", (33.6, 44.8, 81.2, 160.5)))
                   for kib, mib in zip(THRESHOLDS, of)},
        here=Here(MIXES, {f"{kib} KB": {"metric": f"rank_{kib}"} for kib in THRESHOLDS},
                  bench="staging", case="{mix}, memory", of=mb),
        claims=tuple(Claim(f"{mix}: MB with 256 KB", mib, one("staging", f"{mix}, memory", "rank_256", mb), LESS, "MB")
                     for mix, mib in (("LU", 78.2), ("BT", 81.2))),
        needs={"staging": ("memory",)}, why="a rank here writes its buffer when that is full, and the paper's kept all that it had gathered",
    ),
    Figure(
        "Figure 6(a)", "One checkpoint with WAG, by threshold", "stacked", "ms",
        groups=tuple(bars_of_both(dict.fromkeys(("original", *(f"{kib} KB" for kib in THRESHOLDS))))),
        published={("in all", "BT original"): 11200},
        here=Here(bars_of_both({"original": "direct", **{f"{kib} KB": f"rank_{kib}" for kib in THRESHOLDS}}), THREE_PHASES,
                  bench="staging", case="{mix}, rank thresholds", metric="{side}_{phase}", of=ms),
        claims=(*thresholds("LU", (10.18, 14.84, 33.41, 35.20)), *thresholds("BT", (9.8, 12.30, 18.21, 32.75))),
        needs={"staging": ("rank thresholds",)},
        why="fewer calls of the kernel save less than they did: a write of some pages costs little today, and the bytes are the same",
    ),
    run_figure(
        "Figure 6(b)", "Whole runs with WAG",
        {"original": ("direct", "direct"), **{f"{kib} KB": (f"rank, {kib} KiB", f"rank_{kib}") for kib in THRESHOLDS}},
        {"LU original": 13.86, "BT original": 20.77, "LU 512 KB": 9.21, "BT 512 KB": 13.64},
        (Claim("overhead with a threshold of 512 KB", 13.64, overhead("rank, 512 KiB"), LESS, "%"),), FASTER_DISK,
    ),
    Figure(
        "Figure 7(a)", "One checkpoint with WAG-DBI, by pool", "stacked", "ms",
        groups=tuple(bars_of_both(dict.fromkeys(f"{mib} MB" for mib in POOLS))),
        published={("in all", "BT 64 MB"): 4270},
        here=Here(bars_of_both({f"{mib} MB": f"pool_{mib}" for mib in POOLS}), PHASES,
                  bench="staging", case="{mix}, pools", metric="{side}_{phase}", of=ms),
        claims=(
            Claim("LU: times as fast as without a pool, 64 MB", 2.23, one("staging", "LU, pools", "pool_64", gain), MORE, "×"),
            Claim("BT: times as fast as without a pool, 64 MB", 2.62, one("staging", "BT, pools", "pool_64", gain), MORE, "×"),
        ),
        needs={"staging": ("pools",)}, why=CORES + "; " + FASTER_DISK,
    ),
    run_figure(
        "Figure 7(b)", "Whole runs with WAG-DBI",
        {"original": ("direct", "direct"), **{f"{mib} MB": (f"pool, {mib} MiB", f"pool_{mib}") for mib in POOLS}},
        {"BT original": 20.77, "BT 64 MB": 6.86},
        (Claim("overhead with a pool of 64 MB", 6.86, overhead("pool, 64 MiB"), LESS, "%"),), FASTER_DISK,
    ),
    Figure(
        "Figure 8(a)", "WAG and WAG-DBI with about as much memory", "bars", "times as fast as the original",
        groups=("LU", "BT"),
        published={("WAG", "LU"): 1.5, ("WAG-DBI", "LU"): 2.23, ("WAG", "BT"): 1.22, ("WAG-DBI", "BT"): 2.62},
        here=Here(MIXES, {"WAG": {"case": "{mix}, rank thresholds", "metric": "rank_256"},
                          "WAG-DBI": {"case": "{mix}, pools", "metric": "pool_64"}}, bench="staging", of=gain),
        claims=tuple(
            Claim(f"{mix}: {label}, times as fast as the original", published, one("staging", f"{mix}, {case}", metric, gain), MORE, "×")
            for label, case, metric, both in (("WAG", "rank thresholds", "rank_256", (1.5, 1.22)), ("WAG-DBI", "pools", "pool_64", (2.23, 2.62)))
            for mix, published in zip(("LU", "BT"), both)
        ),
        needs={"staging": ("rank thresholds", "pools")}, why=CORES + "; " + FASTER_DISK,
    ),
    run_figure(
        "Figure 8(b)", "Whole runs with WAG and WAG-DBI",
        {"original": ("direct", "direct"), "WAG": ("rank, 256 KiB", "rank_256"), "WAG-DBI": ("pool, 64 MiB", "pool_64")},
        {"BT original": 20.77, "BT WAG": 15.77, "BT WAG-DBI": 6.86},
        (Claim("overhead with WAG", 15.77, overhead("rank, 256 KiB"), LESS, "%"),
         Claim("overhead with WAG-DBI", 6.86, overhead("pool, 64 MiB"), LESS, "%")), FASTER_DISK,
    ),
    Figure(
        "Figure 9", "The time t3 - t2 in which I/O threads write beside the program", "bars", "ms", groups=("LU", "BT"),
        here=Here(MIXES, {f"{mib} MB": {"side": f"pool_{mib}"} for mib in POOLS},
                  bench="staging", case="{mix}, pools", metric="{side}_overlap", of=ms),
        claims=(Claim("BT's overlap is longer than LU's, as its data are (320 MB and 184 MB): times", rounded(320 / 184),
                      of_two(one("staging", "BT, pools", "pool_512_overlap"), one("staging", "LU, pools", "pool_512_overlap"), lambda a, b: a / b), SAME, "×"),),
        needs={"staging": ("pools",)}, why="the text gives no time; it says that a smaller pool leaves less to overlap",
    ),
    Figure(
        "Table III", "The way back: files put together, and the restart", "table", groups=("LU.C.64", "BT.C.64"),
        published={("put together, ms", "LU.C.64"): 1590, ("restart, ms", "LU.C.64"): 9250, ("put together, ms", "BT.C.64"): 3180, ("restart, ms", "BT.C.64"): 9520},
        here=Here(MIXES, {"put together, ms": {"metric": "published_rebuild"}, "restart, ms": {"metric": "plain_fsync"},
                          "restart from a space, ms": {"metric": "pool"}}, bench="staging", case="{mix}, restart", of=ms),
        claims=tuple(Claim(f"{mix}: time of a restart from a space (there: with files put together), of one from plain files", rounded(100 + per),
                           of_two(one("staging", f"{mix}, restart", "pool"), one("staging", f"{mix}, restart", "plain_fsync"),
                                  lambda space, plain: 100 * space / plain), LESS, "%")
                     for mix, per in (("LU", 17.19), ("BT", 33.40))),
        needs={"staging": ("restart",)}, why="a space has nothing to put together, and every block is verified; a restart there also starts processes",
    ),
    Figure(
        "Text, V.B", "Whole runs: 169.9 s without checkpoints", "table", groups=("BT.C.64",),
        published={("none, s", "BT.C.64"): 169.9, ("original, s", "BT.C.64"): 204.9, ("WAG-DBI, s", "BT.C.64"): 181.5},
        here=Here({"adi": {"program": "adi"}, "jacobi3d": {"program": "jacobi3d"}},
                  {"none, s": {"case": "{program}, *, direct", "metric": "run_none"}, "original, s": {"case": "{program}, *, direct", "metric": "run"},
                   "WAG-DBI, s": {"case": "{program}, *, pool, 64 MiB", "metric": "run"}}, bench="run"),
        claims=(Claim("part of the original's overhead that WAG-DBI leaves", rounded(100 * 6.86 / 20.77),
                      of_two(overhead("pool, 64 MiB"), overhead("direct"), lambda pool, direct: 100 * max(0, pool) / max(direct, 0.01)), LESS, "%"),),
        needs={"run": ()}, why="runs are shorter here, with checkpoints as often for their length",
    ),
)  # fmt: skip
