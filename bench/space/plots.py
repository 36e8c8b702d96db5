"""Figures 2 to 7 of paper 001, drawn from the rows alone."""

import re

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

from .results import TOTALS, WAYS, metric, published_text  # noqa: E402

# Told apart by all eyes (Okabe and Ito), and a grey.
COLOURS = dict(
    zip(
        WAYS,
        ("#d55e00", "#e69f00", "#009e73", "#0072b2", "#cc79a7", "#56b4e9", "#000000", "#f0e442", "#999999", "#8c564b"),
        strict=True,
    )
)
LABELS = {
    "segmented": "shared file, segmented",
    "strided": "shared file, strided",
    "file": "file per process",
    "delegated_node": "Mainstay, a file a node",
    "delegated_direct": "Mainstay, a file a node, no pool",
    "delegated_roomy": "Mainstay, a file a node, room for one more",
    "delegated_rank": "Mainstay, a file a rank",
    "delegated_app": "Mainstay, one file",
    "delegated_lazy": "Mainstay, one file, lazy I/O",
}
PANEL = (6, 4)  # inches
STYLE = {"svg.hashsalt": "mainstay", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
CASE = re.compile(r"(.*), (\d+) x (\d+) MB$")


def systems(made):
    """For each file system its cases: processes, and rows by metric."""
    found = {}
    for row in made:
        name, processes, mb = CASE.match(row["case"]).groups()
        found.setdefault(name, {}).setdefault((int(processes), int(mb)), {})[row["metric"]] = row
    return found


def grouped(axes, groups, ways, value):
    """Bars side by side: a group for each label, in it a bar for each way; `value` of (group, way) with whiskers."""
    width = 0.8 / len(ways)
    for number, way in enumerate(ways):
        places = [group + (number - (len(ways) - 1) / 2) * width for group in range(len(groups))]
        heights, below, above = zip(*(value(group, way) for group in groups.values()))
        axes.bar(places, heights, width, color=COLOURS[way], label=LABELS[way])
        if any(above):
            axes.errorbar(places, heights, [below, above], fmt="none", ecolor="black", capsize=2, lw=0.8)
    axes.set_xticks(range(len(groups)), list(groups))


def measured(cases, of=lambda way: way):
    """The ways that any of the cases has a row of."""
    return [way for way in WAYS if any(of(way) in found for found in cases.values())]


def counted(cases):
    return measured(cases, lambda way: metric(way, TOTALS[0]))


def seconds(found, way):
    row = found.get(way)
    if not row or not row["ratio"]:
        return row["value"] if row else 0, 0, 0
    low, high = (row["value"] / row["ratio"] * end for end in row["spread"])
    return row["value"], max(0, row["value"] - low), max(0, high - row["value"])


def count(name):
    return lambda found, way: (found.get(metric(way, name), {"value": 0})["value"], 0, 0)


def labelled(cases):
    return {f"{processes} × {mb} MB": found for (processes, mb), found in cases.items()}


def draw(made, folder):
    """The names of the files: time, requests, and the largest case's by kind, a panel for each file system."""
    found = systems(made)
    with_counts = {name: cases for name, cases in found.items() if counted(cases)}
    names = []
    with pyplot.rc_context(STYLE):
        names.append(figure(folder, "time", found, time_panel))
        if with_counts:
            names.append(figure(folder, "requests", with_counts, requests_panel))
            names.append(figure(folder, "kinds", with_counts, kinds_panel))
    return names


def figure(folder, name, found, panel):
    size = (PANEL[0] * len(found), PANEL[1])
    drawn, panels = pyplot.subplots(1, len(found), figsize=size, squeeze=False, layout="constrained")
    for axes, (system, cases) in zip(panels[0], found.items()):
        panel(axes, system, cases)
        axes.set_ylim(bottom=0)
    handles = {name: handle for axes in panels[0] for handle, name in zip(*axes.get_legend_handles_labels())}
    drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    path = f"space-{name}.svg"
    drawn.savefig(folder / path, metadata={"Date": None})
    pyplot.close(drawn)
    return path


def time_panel(axes, system, cases):
    grouped(axes, labelled(cases), measured(cases), seconds)
    axes.set_title(f"{system}: a checkpoint (Figures 2, 5)")
    axes.set_ylabel("seconds until durable (median; spread of the ratio)")


def requests_panel(axes, system, cases):
    grouped(axes, labelled(cases), counted(cases), count("requests"))
    axes.set_title(f"{system}: requests in all (Figures 3, 6)\n{published_text()}")
    axes.set_ylabel("requests to the metadata servers")


def kinds_panel(axes, system, cases):
    (processes, mb), found = max(cases.items())
    kinds = sorted({name.partition(": ")[2] for name in found if ": request " in name})
    groups = {kind.removeprefix("request "): kind for kind in kinds}
    grouped(axes, groups, counted(cases), lambda kind, way: count(kind)(found, way))
    axes.set_title(f"{system}: by kind, {processes} × {mb} MB (Figures 4, 7)")
    axes.set_ylabel("requests to the metadata servers")
