"""Draws a figure, the published chart beside ours, as a picture that fits a light and a dark page."""

import io

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

# Told apart by all eyes (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#999999")
INK = "#123456"  # stands for the colour of text until the picture is made
STYLE = {
    "svg.hashsalt": "mainstay", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}  # fmt: skip
SIZE = (11, 3.6)  # inches
INK_BY_SCHEME = "<style>:root{--ink:#222}@media (prefers-color-scheme: dark){:root{--ink:#ddd}}</style>"
MANY = 16  # groups: more have no room for a label each
SIDES = ("published", "here")


def svg(figure):
    """The text of an SVG file. A series has one colour on both sides."""
    names = dict.fromkeys(name for side in reversed(SIDES) for name in figure[side]["series"])
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    with pyplot.rc_context(STYLE):
        drawn, panels = pyplot.subplots(1, 2, figsize=SIZE, layout="constrained")
        for panel, side in zip(panels, SIDES):
            draw(panel, figure, side, colours)
        shown = {name: handle for panel in panels for handle, name in zip(*panel.get_legend_handles_labels())}
        drawn.legend(shown.values(), shown.keys(), loc="outside lower center", fontsize=8, frameon=False, ncols=8)
        return as_svg(drawn)


def as_svg(drawn):
    """The text of an SVG file of a drawing, whose ink is that of the page."""
    made = io.StringIO()
    drawn.savefig(made, format="svg", transparent=True, metadata={"Date": None})
    pyplot.close(drawn)
    text = made.getvalue().replace(INK, "var(--ink)")
    head = text.index(">", text.index("<svg")) + 1
    return text[text.index("<svg") : head] + INK_BY_SCHEME + text[head:]


def draw(axes, figure, side, colours):
    chart = figure[side]
    axes.set(title=side, ylabel=figure["y"], xlabel=figure["x"])
    if any(value is not None for values in chart["series"].values() for value in values):
        {"lines": lines, "stacked": stacked}.get(figure["kind"], bars)(axes, chart, colours)
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        label(axes, chart["groups"])
    else:
        missing = "no number in the text" if side == "published" else "not measured in this run"
        axes.text(0.5, 0.5, missing, ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])


def label(axes, groups):
    step = -(-len(groups) // MANY)
    at = range(0, len(groups), step)
    turned = {"rotation": 35, "ha": "right"} if sum(map(len, groups)) > 40 else {}
    axes.set_xticks(list(at), [groups[number] for number in at], fontsize=8, **turned)


def known(values):
    return [value or 0 for value in values]


def bars(axes, chart, colours):
    count = len(chart["series"])
    for number, (name, values) in enumerate(chart["series"].items()):
        at = [group + (number - (count - 1) / 2) * 0.8 / count for group in range(len(values))]
        axes.bar(at, known(values), 0.8 / count, label=name, color=colours[name])


def stacked(axes, chart, colours):
    below = [0.0] * len(chart["groups"])
    for name, values in chart["series"].items():
        axes.bar(range(len(values)), known(values), 0.6, bottom=below, label=name, color=colours[name])
        below = [before + value for before, value in zip(below, known(values))]


def lines(axes, chart, colours):
    marked = "o-" if len(chart["groups"]) <= MANY else "-"
    for name, values in chart["series"].items():
        at = [place for place, value in enumerate(values) if value is not None]
        axes.plot(at, [values[place] for place in at], marked, label=name, color=colours[name], markersize=4)
