"""Figures 7 and 8 of paper 002 for objects, drawn from the rows alone."""

import re

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

from recovery.plots import COLOURS, STYLE  # noqa: E402


def draw(made, folder):
    """The names of the files."""
    totals, steps = [], {}
    for row in made:
        if match := re.match(r"(\d+) of \d+ ranks are lost$", row["case"]):
            if row["metric"] == "seconds":
                totals.append((int(match[1]), row["value"], row["value"] / row["ratio"]))
        if match := re.match(r"(\d+) of \d+ ranks are lost, each$", row["case"]):
            steps.setdefault(int(match[1]), []).append((row["metric"], row["value"]))
    names = []
    with pyplot.rc_context(STYLE):
        drawn, axes = pyplot.subplots(figsize=(6.5, 4), layout="constrained")
        lost, took, explained = zip(*sorted(totals))
        axes.plot(lost, took, "o-", color=COLOURS[0], label="the run")
        axes.plot(lost, explained, "--", color=COLOURS[1], label="what its work explains")
        axes.set_xlabel("ranks lost one after another (Figure 7)")
        axes.set_ylabel("seconds")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        names.append(save(drawn, folder, "objects-total.svg"))
        drawn, axes = pyplot.subplots(figsize=(6.5, 4), layout="constrained")
        busiest = [value for metric, value in steps[max(steps)] if metric.startswith("busiest")]
        axes.plot(busiest, color=COLOURS[0], linewidth=1)
        axes.set_xlabel("steps as they were done, those done again included (Figure 8)")
        axes.set_ylabel("work of the busiest rank ÷ work of all before the first loss")
        axes.set_ylim(bottom=0)
        names.append(save(drawn, folder, "objects-steps.svg"))
    return names


def save(drawn, folder, name):
    drawn.savefig(folder / name, metadata={"Date": None})
    pyplot.close(drawn)
    return name
