"""Yamagata, Matsuoka, Jitsumoto, Nakada: Speculative Checkpointing."""

from .figure import LESS, MORE, Claim, Figure, Here, one, per_cent, rounded

PAPER = "004"
TITLE = "Pages saved before the checkpoint"
PROCESSES = ("1", "2", "4", "8", "16")
WITHOUT, WITH = (37.37, 125.23, 929.11, 1882.57, 5367.00), (39.1, 112.13, 659.25, 1288.26, 4549.85)
MEMWRITE, ADI = r"memwrite, (\d+) x \d+ MB", r"adi, (\d+) processes, .*"
SCALED = (
    "memory, interval and bandwidth are scaled down together, and one throttle for all processes stands for the server"
)
KIND = "adi is of BT's kind: it saves its field just before it is written again"
NEEDS = {"speculation": ()}


def left(case, way):
    """The part of the written blocks that is left for the checkpoint itself, in per cent."""
    return one("speculation", case, f"{way}_blocks")


def early(case, way):
    def find(results):
        found = left(case, way)(results)
        return None if found is None else 100 - found

    return find


def times(way):
    return tuple(
        Claim(f"{count} processes: time with the oracle, of the time without", rounded(100 * best / plain),
              one("speculation", f"adi, {count} processes, *", way, per_cent), LESS, "%")
        for count, best, plain in zip(PROCESSES, WITH, WITHOUT)
    )  # fmt: skip


def measured(cases, ways):
    return Here(cases, {label: {"metric": way} for label, way in ways.items()}, bench="speculation")


ORACLE = {"without": "incremental", "with": "oracle"}
PUBLISHED = {
    **{("without", count): seconds for count, seconds in zip(PROCESSES, WITHOUT)},
    **{("with", count): seconds for count, seconds in zip(PROCESSES, WITH)},
}

FIGURES = (
    Figure("Figure 1", "", drawing="processes that write to one server at the same time"),
    Figure("Figures 2 to 5", "", drawing="right and wrong predictions of the last write, and their place in time"),
    Figure(
        "Figure 6", "MEMWRITE: all checkpoints, with the predictor of infrequent writes", "bars", "s", "processes", PROCESSES,
        here=measured(MEMWRITE, {"without": "incremental", "with": "infrequent"}),
        claims=(Claim("pages saved early, of all", rounded(100 * 49678 / 196876), early("memwrite, 1 x *", "infrequent"), MORE, "%"),),
        needs=NEEDS, why=f"the text gives no times; {SCALED}",
    ),
    Figure(
        "Figure 7", "BT, class A: all checkpoints, with the predictor of infrequent writes", "bars", "s", "processes", PROCESSES,
        here=measured(ADI, {"without": "incremental", "with": "infrequent"}),
        claims=(Claim("time with it, of the time without", 100.0, one("speculation", "adi, 1 processes, *", "infrequent", per_cent), LESS, "%"),),
        needs=NEEDS, why=f"it saved no page early in BT, and finds none in adi; {SCALED}; {KIND}",
    ),
    Figure(
        "Table 1", "BT, class A: all checkpoints with a perfect prediction", "table", "s", "processes", PROCESSES, PUBLISHED,
        measured(ADI, ORACLE), times("oracle"), NEEDS, f"{SCALED}; {KIND}",
    ),
    Figure(
        "Figure 8", "BT, class A: all checkpoints with a perfect prediction", "bars", "s", "processes", PROCESSES, PUBLISHED,
        measured(ADI, ORACLE), times("oracle"), NEEDS, f"{SCALED}; {KIND}; turns (`stagger`) spread the early writes, as the paper proposes",
    ),
    Figure(
        "Text, 6: the oracle", "Recorded NAS benchmarks, replayed: pages saved early of 100 written", "bars", "%",
        here=Here(r"replay of (.*)", {"the oracle": {"metric": "oracle"}, "auto": {"metric": "auto"}}, bench="speculation"),
        claims=(Claim("BT, class A: pages that a perfect prediction saves early (the best gain in time: 8 processes)", 32,
                      one("speculation", "replay of bt.A.long, 5 iterations, x = 0.1", "oracle"), MORE, "%"),),
        needs=NEEDS, why="a trace of pages has no server in it: only the pages that are left count",
    ),
    Figure(
        "Text, 4: the predictors", "What `auto` reaches of the oracle's gain, live", "bars", "s", "processes", (),
        here=measured(ADI, {"incremental": "incremental", "infrequent": "infrequent", "auto": "auto", "oracle": "oracle"}),
        claims=(Claim("4 processes: time with `auto`, of the time without (the paper's heuristic: no gain)", 100.0,
                      one("speculation", "adi, 4 processes, *", "auto", per_cent), LESS, "%"),),
        needs=NEEDS, why="`auto` learns the order of writes within an iteration, which the paper names as its future work",
    ),
)  # fmt: skip
