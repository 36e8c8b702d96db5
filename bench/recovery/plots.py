"""Figures 6, 7 and 8 of paper 002, drawn from the rows alone."""

import re

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

from .results import PARTS, WAYS  # noqa: E402

# Told apart by all eyes (Okabe and Ito), and a grey.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
GREY = "#999999"
STYLE = {"svg.hashsalt": "mainstay", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
PART_LABELS = {
    "notice": "the failure is noticed",
    "group": "the ranks regroup (or the job starts)",
    "opening": "the session is opened anew",
    "layout": "the program is laid out",
    "state": "the state is back",
    "step": "a step is done",
}


def draw(made, folder):
    """The names of the files that there are rows for."""
    figures = (
        ("parts", r"a rank of (\d+) fails$", draw_parts),
        ("total", r"(\d+) ranks of (\d+) fail$", draw_total),
        ("steps", r"(\d+) ranks of (\d+) fail, each$", draw_steps),
    )
    names = []
    with pyplot.rc_context(STYLE):
        for name, pattern, panel in figures:
            cases = {}
            for row in made:
                if match := re.match(pattern, row["case"]):
                    cases.setdefault(match.groups(), {})[row["metric"]] = row["value"]
            if cases:
                drawn, axes = pyplot.subplots(figsize=(6.5, 4), layout="constrained")
                panel(axes, cases)
                names.append(f"recovery-{name}.svg")
                drawn.savefig(folder / names[-1], metadata={"Date": None})
                pyplot.close(drawn)
    return names


def draw_parts(axes, cases):
    bars = [(ranks, way) for (ranks,) in cases for way in WAYS]
    left = [0.0] * len(bars)
    for colour, part in zip(COLOURS, PARTS):
        took = [cases[(ranks,)][f"{way}_{part}"] for ranks, way in bars]
        axes.barh(range(len(bars)), took, left=left, color=colour, label=PART_LABELS[part])
        left = [before + more for before, more in zip(left, took)]
    axes.set_yticks(range(len(bars)), [f"{ranks} ranks, {way}" for ranks, way in bars])
    axes.invert_yaxis()
    axes.set_xlabel("seconds from the death of a rank to the first step done again (Figure 6)")
    axes.legend(fontsize=8, frameon=False)


def draw_total(axes, cases):
    (lost, ranks), values = next(iter(cases.items()))
    labels = (
        f"no failure,\n{values['calm_steps']:.0f} steps",
        f"{lost} failures,\n{values['executed_steps']:.0f} steps",
    )
    axes.bar(labels, [values["calm"], values["disturbed"]], 0.5, color=COLOURS[:2])
    axes.set_ylabel("seconds in all")
    axes.set_title(f"jacobi3d on {ranks} ranks, which lose {lost} one after another (Figure 7)")


def draw_steps(axes, cases):
    (lost, ranks), values = next(iter(cases.items()))
    steps = {int(name.split()[1]): 1e3 * value for name, value in values.items() if name.startswith("step ")}
    axes.step(list(steps), list(steps.values()), where="post", color=COLOURS[0], label="mean of ten steps")
    for number, at in enumerate(value for name, value in values.items() if name.startswith("failure ")):
        axes.axvline(at, color=GREY, lw=0.8, ls=":", label=None if number else "a rank dies")
    axes.set_ylim(0)
    axes.set_xlabel("executed steps")
    axes.set_ylabel("milliseconds a step")
    axes.set_title(f"jacobi3d, from {ranks} ranks to {int(ranks) - int(lost)} (Figure 8)")
    axes.legend(fontsize=8, frameon=False)
