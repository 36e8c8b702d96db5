"""The picture of the benchmark `pages`, drawn from its rows alone."""

from harness.charts import COLOURS, STYLE, as_svg, pyplot

PANELS = (("bytes", "bytes", 2**20, "MiB written"), ("perceived", "s", 1e-3, "ms until the program goes on"),
          ("durable", "s", 1e-3, "ms until it is durable"), ("run", "s", 1, "s, the whole run"))  # fmt: skip


def draw(made, folder):
    programs = {}
    for row in made:
        name, _, metric = row["metric"].rpartition("_")
        if metric in dict.fromkeys(panel[0] for panel in PANELS) and " x " not in row["case"]:
            programs.setdefault(row["case"], {}).setdefault(name, {})[metric] = row["value"]
    if not programs:
        return
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(1, len(PANELS), figsize=(3.2 * len(PANELS), 3.2), layout="constrained")
        for axis, (metric, _, scale, label) in zip(axes, PANELS):
            draw_panel(axis, programs, metric, scale)
            axis.set_title(label, fontsize=9)
        axes[0].legend(fontsize=8, frameon=False)
        (folder / "pages.svg").write_text(as_svg(figure))


def draw_panel(axis, programs, metric, scale):
    names = [name for name in next(iter(programs.values())) if metric in next(iter(programs.values()))[name]]
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        at = [place + number * width for place in range(len(programs))]
        values = [sides[name][metric] / scale for sides in programs.values()]
        axis.bar(at, values, width, color=COLOURS[number % len(COLOURS)], label=name)
    axis.set_xticks([place + 0.4 - width / 2 for place in range(len(programs))], list(programs))
