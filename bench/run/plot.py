"""The picture of the benchmark `run`, drawn from its rows alone."""

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#999999"
STYLE = {"svg.hashsalt": "mainstay", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def draw(rows, path):
    """A panel for each program: for each side the additional time of the run, and the part of it in Mainstay."""
    panels = {}
    for row in rows:
        program, _, side = row["case"].partition(" MB, ")
        panels.setdefault(f"{program} MB", {}).setdefault(side, {})[row["metric"]] = row
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(1, max(1, len(panels)), figsize=(6 * max(1, len(panels)), 4.6), squeeze=False)
        for panel, (title, sides) in zip(axes[0], panels.items()):
            draw_panel(panel, title, sides)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def draw_panel(panel, title, sides):
    at = range(len(sides))
    overhead = [side["overhead"]["value"] for side in sides.values()]
    below = [side["overhead"]["value"] - side["overhead_low"]["value"] for side in sides.values()]
    above = [side["overhead_high"]["value"] - side["overhead"]["value"] for side in sides.values()]
    panel.barh(at, [side["in_mainstay"]["value"] for side in sides.values()], color=BLUE, height=0.5,
               label="in Mainstay, on the program's own threads")  # fmt: skip
    panel.errorbar(overhead, at, xerr=[below, above], fmt="o", color=ORANGE, capsize=3,
                   label="longer than without checkpoints, with its 95 % confidence interval")  # fmt: skip
    panel.axvline(0, color="black", linewidth=0.8)
    panel.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
    panel.set_yticks(at, list(sides))
    panel.invert_yaxis()
    panel.set_xlabel("% of the run; dotted: 1 %")
    calm = next(iter(sides.values()))["run_none"]["value"] if sides else 0
    panel.set_title(f"{title} a rank, 3 checkpoints in {calm:.1f} s")
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)
