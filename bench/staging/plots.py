"""A plot of each of the published figures and tables, drawn from the rows alone."""

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot  # noqa: E402

from .results import PHASES  # noqa: E402
from .sides import FILES, PUBLISHED, READ, STAGES  # noqa: E402

# Told apart by all eyes (Okabe and Ito).
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7",
)  # fmt: skip
GREY = "#999999"
PHASE_COLOURS = dict(zip(PHASES, (GREY, PINK, YELLOW, BLUE, ORANGE, GREEN)))
PHASE_LABELS = {
    "processor": "waiting for a processor",
    "communication": "phase 1: communication",
    "buffer_wait": "buffer",
    "copy": "memcpy (direct: write)",
    "resume": "phase 3",
}
STAGE_COLOURS = {"node": ORANGE, "rank": GREEN, "pool": BLUE}
PANEL = (6, 4)  # inches
STYLE = {"svg.hashsalt": "mainstay", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


class Rows:
    """The rows of one case by metric; times in milliseconds, with their spread."""

    def __init__(self, rows, case):
        self.by_metric = {row["metric"]: row for row in rows if row["case"] == case}

    def __bool__(self):
        return bool(self.by_metric)

    def __contains__(self, metric):
        return metric in self.by_metric

    def ms(self, metric):
        return 1e3 * self.by_metric[metric]["value"]

    def ratio(self, metric):
        return self.by_metric[metric]["ratio"]

    def mib(self, metric):
        return self.by_metric[metric]["value"] / 2**20

    def whiskers(self, metrics):
        """The spread of the ratios, as times: below and above the medians."""
        low, high = [], []
        for metric in metrics:
            row = self.by_metric[metric]
            scale = self.ms(metric) / row["ratio"] if row["ratio"] else 0
            low.append(max(0, self.ms(metric) - scale * row["spread"][0]))
            high.append(max(0, scale * row["spread"][1] - self.ms(metric)))
        return [low, high]

    def numbers(self, start):
        """The numbers after `start` in the metrics: sizes."""
        found = (metric.removeprefix(start) for metric in self.by_metric if metric.startswith(start))
        return sorted(int(number) for number in found if number.isdecimal())


def figure(name, rows, case, panel, title):
    """A panel for each mix that has the case."""
    cases = {of: found for of in mixes(rows) if (found := Rows(rows, f"{of}, {case}"))}
    if not cases:
        return None
    size = (PANEL[0] * len(cases), PANEL[1])
    drawn, panels = pyplot.subplots(1, len(cases), figsize=size, squeeze=False, layout="constrained")
    for axes, (of, found) in zip(panels[0], cases.items()):
        axes.set_title(f"{of}: {title}")
        panel(axes, found)
        axes.set_ylim(bottom=0)
    # The same in all panels, and nowhere in the way.
    drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return name, drawn


def mixes(rows):
    return dict.fromkeys(row["case"].split(",")[0] for row in rows)


def bars(axes, found, names, parts, labels):
    """Stacked bars: `parts` of each name, where the rows have them, else one part."""
    for at, name in enumerate(names):
        base = 0
        for part, colour in parts.items():
            if f"{name}_{part}" in found:
                height = found.ms(f"{name}_{part}")
                axes.bar(at, height, bottom=base, color=colour, width=0.7)
                base += height
        if not base:
            axes.bar(at, found.ms(name), color=SKY, width=0.7)
    whole = [found.ms(name) for name in names]
    axes.errorbar(range(len(names)), whole, found.whiskers(names), fmt="none", ecolor=BLACK, capsize=3, lw=1)
    axes.set_xticks(range(len(names)), labels, rotation=20)
    axes.set_ylabel("milliseconds (median; spread of the ratio)")
    for part, colour in parts.items():
        axes.bar(0, 0, color=colour, label=PHASE_LABELS.get(part, part))


def level(axes, found, metric, label, colour):
    """A line across, to measure against."""
    axes.axhline(found.ms(metric), color=colour, ls="--", lw=1, label=label)


def line(axes, found, sizes, metrics, label, colour):
    values = [found.ms(metric) for metric in metrics]
    axes.errorbar(range(len(sizes)), values, found.whiskers(metrics), marker="o", capsize=3, label=label, color=colour)
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set_ylabel("milliseconds (median; spread of the ratio)")


def perceived(axes, found):
    names = [*FILES, *STAGES]
    bars(axes, found, names, PHASE_COLOURS, names)
    level(axes, found, "buffered", "plain writes of 4 MiB, one fsync", RED)
    level(axes, found, "copy", "copy", BLACK)
    level(axes, found, "least", "the least with a pool of 64 MiB", GREY)
    for at, name in enumerate(names):
        top = found.ms(name) + found.whiskers([name])[1][0]
        axes.annotate(f"{found.ms('direct') / found.ms(name):.2f} ×", (at, top), ha="center", va="bottom", fontsize=7)


def overlap(axes, found):
    sizes = found.numbers("pool_")
    names = [f"pool_{size}_overlap" for size in sizes]
    values = [found.ms(name) for name in names]
    axes.bar(range(len(sizes)), values, color=BLUE, width=0.7, label="t3 − t2")
    axes.errorbar(range(len(sizes)), values, found.whiskers(names), fmt="none", ecolor=BLACK, capsize=3, lw=1)
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set_xlabel("pool of the node, MiB")
    axes.set_ylabel("milliseconds (median; spread of the ratio)")


def pools(axes, found):
    sizes = found.numbers("pool_")
    line(axes, found, sizes, [f"pool_{size}" for size in sizes], "perceived, t2 − t1", BLUE)
    line(axes, found, sizes, [f"pool_{size}_durable" for size in sizes], "durable, t3 − t1", SKY)
    level(axes, found, "direct", "direct", RED)
    level(axes, found, "direct_unsynced", "direct without its sync", ORANGE)
    level(axes, found, "copy", "copy", BLACK)
    for metric, label, style in (("knee", "flat from here on", ":"), ("advised", "mainstay advise", "-.")):
        if metric in found and (size := round(found.mib(metric))) in sizes:
            axes.axvline(sizes.index(size), color=GREY, ls=style, lw=1, label=label)
    axes.set_xlabel("pool of the node, MiB")


def chunks(axes, found):
    sizes = found.numbers("chunk_")
    line(axes, found, sizes, [f"chunk_{size}" for size in sizes], "perceived, t2 − t1", BLUE)
    line(axes, found, sizes, [f"chunk_{size}_durable" for size in sizes], "durable, t3 − t1", SKY)
    level(axes, found, "copy", "copy", BLACK)
    axes.set_xlabel("chunk, KiB")


def of_both_stages(rows):
    """The thresholds of `node` and of `rank`, which are cases of their own, as one."""
    end = " thresholds"
    return [{**row, "case": row["case"].split(",")[0] + "," + end} for row in rows if row["case"].endswith(end)]


def thresholds(axes, found):
    for stage in ("node", "rank"):
        if sizes := found.numbers(f"{stage}_"):
            names = [*(f"{stage}_{size}" for size in sizes), f"{stage}_auto"]
            line(axes, found, [*sizes, "auto"], names, f"{stage}, perceived", STAGE_COLOURS[stage])
    level(axes, found, "direct", "direct", RED)
    level(axes, found, "copy", "copy", BLACK)
    axes.set_xlabel("threshold, KiB")


def memory(axes, found):
    names = [metric.removesuffix("_ranks") for metric in found.by_metric if metric.endswith("_ranks")]
    pools, ranks = ([found.mib(f"{name}_{part}") for name in names] for part in ("pool", "ranks"))
    axes.bar(range(len(names)), pools, color=BLUE, label="the node's, in /dev/shm")
    axes.bar(range(len(names)), ranks, bottom=pools, color=ORANGE, label="all ranks' own")
    allowed = [found.mib(f"{name}_allowed") for name in names]
    axes.plot(range(len(names)), allowed, "_", color=BLACK, ms=14, label="allowed")
    axes.set_xticks(range(len(names)), names, rotation=45)
    axes.set_ylabel("MiB")


def restart(axes, found):
    names = [READ, PUBLISHED, *STAGES]
    parts = {"open": GREY, "rebuild": RED, "restore": GREEN, "read": BLUE}
    bars(axes, found, names, parts, ["plain files", "published layout", *STAGES])


def draw(rows, folder):
    """The names of the files."""
    figures = (
        ("perceived", rows, "stages", perceived, "how long the program waits (Figures 7a, 8a)"),
        ("overlap", rows, "pools", overlap, "written while the program goes on (Figure 9)"),
        ("thresholds", of_both_stages(rows), "thresholds", thresholds, "by threshold (Figure 6a)"),
        ("pools", rows, "pools", pools, "by pool (Figure 7a)"),
        ("chunks", rows, "chunks", chunks, "by chunk"),
        ("restart", rows, "restart", restart, "restart, nothing cached (Table III)"),
        ("memory", rows, "memory", memory, "memory used (Table II)"),
    )
    names = []
    with pyplot.rc_context(STYLE):
        for words in figures:
            if made := figure(*words):
                name, drawn = made
                names.append(f"staging-{name}.svg")
                drawn.savefig(folder / names[-1], metadata={"Date": None})
                pyplot.close(drawn)
    return names
