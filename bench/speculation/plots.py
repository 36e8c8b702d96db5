"""The picture of the benchmark `speculation`, drawn from its rows alone (paper 004, Figures 7 and 8)."""

import re

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

from .results import INCREMENTAL, PREDICTORS, REPLAY, WAYS  # noqa: E402

# Told apart by all eyes (Okabe and Ito).
COLOURS = ("#999999", "#000000", "#0072b2", "#e69f00", "#009e73", "#56b4e9", "#d55e00", "#cc79a7")
STYLE = {"svg.hashsalt": "mainstay", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
CASE = re.compile(r"^(\w+), (\d+) ")


def draw(made, folder):
    """The names of the files that there are rows for."""
    programs = {}
    for row in (row for row in made if not row["case"].startswith(REPLAY)):
        name, processes = CASE.match(row["case"]).groups()
        programs.setdefault(name, {}).setdefault(int(processes), {})[row["metric"]] = row["value"]
    if not programs:
        return []
    with pyplot.rc_context(STYLE):
        size = (6 * len(programs), 6.4)
        figure, axes = pyplot.subplots(2, len(programs), figsize=size, layout="constrained", squeeze=False)
        for column, (name, cases) in enumerate(programs.items()):
            axes[0][column].set_title(name)
            draw_times(axes[0][column], cases)
            draw_gains(axes[1][column], cases)
            for axis in axes[:, column]:
                axis.set_xticks(range(len(cases)), list(cases))
                axis.set_xlabel("processes")
        axes[0][0].legend(fontsize=7, frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1.08))
        axes[1][0].legend(fontsize=7, frameon=False)
        figure.savefig(folder / "speculation.svg", metadata={"Date": None})
        pyplot.close(figure)
    return ["speculation.svg"]


def draw_times(axis, cases):
    ways = [way for way in WAYS if way in next(iter(cases.values()))]
    width = 0.8 / len(ways)
    for number, way in enumerate(ways):
        at = [place + (number + 0.5) * width - 0.4 for place in range(len(cases))]
        axis.bar(
            at, [of[way] / of[INCREMENTAL] for of in cases.values()], width, color=COLOURS[WAYS.index(way)], label=way
        )
    axis.set_ylabel("time in checkpoints ÷ that of incremental")


def draw_gains(axis, cases):
    for name in PREDICTORS:
        colour = COLOURS[WAYS.index(name)]
        live = [100 - of[f"{name}_left"] for of in cases.values()]
        predicted = [100 - of[f"{name}_predicted"] for of in cases.values()]
        axis.plot(range(len(cases)), live, "o-", color=colour, label=f"{name}, live")
        axis.plot(range(len(cases)), predicted, "x--", color=colour, label=f"{name}, predicted")
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_ylabel("% less time than incremental")
