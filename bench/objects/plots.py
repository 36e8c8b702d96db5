"""Figures 6, 7 and 8 of paper 002 for objects, drawn from the rows alone."""

import re

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

from recovery.plots import COLOURS, STYLE  # noqa: E402


# As `mainstay status` names the parts of a recovery; objects come back after those.
PARTS = {
    "regroup": "the failure is noticed, and the ranks shrink",
    "open": "the session is opened anew",
    "state": "the state is back",
    "copies": "copies are made again",
    "restore": "objects are restored",
}


def draw(made, folder):
    """The names of the files."""
    totals, steps, parts = [], {}, {}
    for row in made:
        if match := re.match(r"(\d+) of \d+ ranks are lost$", row["case"]):
            if row["metric"] in PARTS:
                parts.setdefault(int(match[1]), {})[row["metric"]] = row["value"]
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
        if parts:
            drawn, axes = pyplot.subplots(figsize=(6.5, 3), layout="constrained")
            draw_parts(axes, parts)
            names.append(save(drawn, folder, "objects-parts.svg"))
    return names


def draw_parts(axes, parts):
    """A bar for each number of losses: of the last recovery, and the median of all times in which objects came back."""
    left = dict.fromkeys(sorted(parts), 0.0)
    for colour, (part, label) in zip(COLOURS, PARTS.items()):
        took = [parts[lost].get(part, 0.0) for lost in left]
        if part == "restore":  # it has those in it that the session's own restore took
            took = [
                max(0.0, all_of - parts[lost].get("state", 0) - parts[lost].get("copies", 0))
                for lost, all_of in zip(left, took)
            ]
        axes.barh([str(lost) for lost in left], took, left=list(left.values()), color=colour, label=label)
        left = {lost: before + more for (lost, before), more in zip(left.items(), took)}
    axes.set_ylabel("ranks lost")
    axes.set_xlabel("seconds of a recovery (Figure 6)")
    axes.legend(fontsize=8, frameon=False)


def save(drawn, folder, name):
    drawn.savefig(folder / name, metadata={"Date": None})
    pyplot.close(drawn)
    return name
