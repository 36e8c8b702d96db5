"""Figures 3, 4 and 5 of paper 002, drawn from the rows alone."""

import re

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

from .results import WAYS  # noqa: E402

# Told apart by all eyes (Okabe and Ito), and a grey.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7")
GREY = "#999999"
STYLE = {"svg.hashsalt": "mainstay", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
RUNS = {"run_none": "without Mainstay", "run_idle": "with it, idle", "run_saving": "8 checkpoints in 100 steps"}
WAY_LABELS = {
    "shared": "shared file system",
    "disk": "local disk",
    "memory": "double in memory",
    "memory_slow": "double in memory, slow link",
    "disk_double": "double on disk",
}
RUN = re.compile(r"jacobi3d, (\d+) MB on (\d+) ranks, (\d+) nodes$")
RANKS = re.compile(r"(\d+) MB on (\d+) ranks, (\d+) nodes, (background|blocking)$")
SIZE = re.compile(r"size, (\d+) MB")


def found(made, pattern):
    """Rows by the part of their case that matches, then by metric."""
    cases = {}
    for row in made:
        if match := pattern.match(row["case"]):
            cases.setdefault(match.groups(), {})[row["metric"]] = row
    return cases


def draw(made, folder):
    """The names of the files that there are rows for."""
    figures = (("runs", RUN, draw_runs), ("ranks", RANKS, draw_ranks), ("sizes", SIZE, draw_sizes))
    names = []
    with pyplot.rc_context(STYLE):
        for name, pattern, panel in figures:
            if cases := found(made, pattern):
                drawn, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
                panel(axes, cases)
                axes.legend(fontsize=8, frameon=False)
                names.append(f"levels-{name}.svg")
                drawn.savefig(folder / names[-1], metadata={"Date": None})
                pyplot.close(drawn)
    return names


def spread_of(row):
    """Its value, and how far below and above that single rounds were."""
    low, high = (row["value"] / row["ratio"] * end for end in row["spread"])
    return row["value"], max(0, row["value"] - low), max(0, high - row["value"])


def draw_runs(axes, cases):
    for number, (metric, label) in enumerate(RUNS.items()):
        places = [group + (number - 1) * 0.27 for group in range(len(cases))]
        heights, below, above = zip(*(spread_of(of_case[metric]) for of_case in cases.values()))
        axes.bar(places, heights, 0.25, color=COLOURS[number], label=label)
        axes.errorbar(places, heights, [below, above], fmt="none", ecolor="black", capsize=2, lw=0.8)
    axes.set_xticks(range(len(cases)), [f"{ranks} ranks\n{nodes} nodes" for _, ranks, nodes in cases])
    axes.set_ylabel("seconds (median; spread of the ratio)")
    axes.set_title(f"jacobi3d, {next(iter(cases))[0]} MB in all, 100 steps (Figure 3)")


def draw_ranks(axes, cases):
    """On the nodes of the first case; each metric in the order of the ranks."""
    mb, _, nodes, _ = next(iter(cases))
    lines = (
        ("background", "copy", "a copy", GREY, ":"),
        ("background", "copy_exchange", "a copy, sent and received", GREY, "--"),
        ("background", "perceived", "in the background: the program waits", COLOURS[0], "-"),
        ("background", "slowdown", "in the background: the program loses in all", COLOURS[1], "-"),
        ("blocking", "perceived", "blocking, as published", COLOURS[3], "-"),
    )
    for mode, metric, label, colour, style in lines:
        points = sorted(
            (int(ranks), 1e3 * of_case[metric]["value"])
            for (_, ranks, on, of_mode), of_case in cases.items()
            if on == nodes and of_mode == mode
        )
        if points:
            axes.plot(*zip(*points), style, color=colour, marker="o", markersize=4, label=label)
    axes.set_xticks(sorted({int(ranks) for _, ranks, _, _ in cases}))
    axes.set_xlabel("ranks")
    axes.set_ylabel("milliseconds")
    axes.set_ylim(bottom=0)
    axes.set_title(f"One checkpoint of {mb} MB in all, {nodes} nodes (Figure 4)")


def draw_sizes(axes, cases):
    for way, colour in zip(WAYS, COLOURS):
        points = sorted((int(mb), of_case[way]["value"]) for (mb,), of_case in cases.items() if way in of_case)
        if points:
            axes.plot(*zip(*points), color=colour, marker="o", markersize=4, label=WAY_LABELS[way])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes := sorted(int(mb) for (mb,) in cases), sizes)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("MB in all")
    axes.set_ylabel("seconds until complete")
    axes.set_title("One checkpoint against the size of the data (Figure 5)")
