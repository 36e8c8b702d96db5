"""A picture of a cut through the ground, from west to east."""

import matplotlib

matplotlib.use("Agg")

import numpy
from matplotlib import patheffects, pyplot
from matplotlib.colors import LightSource, LinearSegmentedColormap

import dem

DEPTH_M = 1500  # of the grid below the lowest valley, and of air above the highest peak: see ground.c
HEADROOM_M = 60

INK = "#2b2d33"
RELIEF = LinearSegmentedColormap.from_list("relief", ["#6f8f7f", "#a9b48d", "#d8cba0", "#b79b7b", "#f3efe8"])
HEAT = LinearSegmentedColormap.from_list(
    "heat", ["#2f5d8a", "#6fa3b8", "#e9e2c3", "#f0b35f", "#d9602f", "#8f1d2c", "#3f0a24"]
)


def draw(field, years, path):
    """Writes a picture of the field [east, north, up] where the relief is greatest."""
    heights, width, length = dem.load()
    row = int(numpy.argmax(numpy.ptp(heights, axis=1)))
    place = (row + 0.5) / len(heights)
    cut = field[:, int(place * field.shape[1]), :].T

    with pyplot.rc_context({"font.size": 10, "text.color": INK, "axes.labelcolor": INK,
                            "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK}):  # fmt: skip
        figure = pyplot.figure(figsize=(12, 5.6), dpi=150, facecolor="white")
        sides = figure.add_gridspec(1, 2, width_ratios=(3, 1), left=0.06, right=0.975,
                                    bottom=0.11, top=0.83, wspace=0.2)  # fmt: skip
        draw_cut(figure, figure.add_subplot(sides[0]), cut, heights, row, width)
        draw_map(figure.add_subplot(sides[1]), heights, place, width, length)
        figure.text(0.06, 0.935, "The warmth below the mountains", fontsize=17, weight="bold")
        figure.text(0.06, 0.885, f"Jacksboro fault, Tennessee: ground temperature {years:,} years after the "
                    "valleys were cut from a plateau", fontsize=10.5, color="#666a73")  # fmt: skip
        figure.savefig(path)
        pyplot.close(figure)


def draw_cut(figure, axes, cut, heights, row, width):
    surface = heights[row] / 1000
    east = (numpy.arange(len(surface)) + 0.5) / len(surface) * width / 1000
    bottom = (float(heights.min()) - DEPTH_M) / 1000
    top = (float(heights.max()) + HEADROOM_M) / 1000
    extent = (0, width / 1000, bottom, top)

    sky = axes.imshow(numpy.linspace(1, 0, 64)[:, None], extent=(*extent[:2], 0, top + 0.12),
                      cmap=LinearSegmentedColormap.from_list("sky", ["#f4f1e8", "#bcd7e6"]))  # fmt: skip
    sky.set_zorder(0)
    warmth = axes.imshow(cut, origin="lower", extent=extent, cmap=HEAT, interpolation="bilinear",
                         vmin=5, vmax=10 * numpy.ceil(cut.max() / 10))  # fmt: skip
    x = (numpy.arange(cut.shape[1]) + 0.5) / cut.shape[1] * width / 1000
    z = bottom + (numpy.arange(cut.shape[0]) + 0.5) / cut.shape[0] * (top - bottom)
    levels = numpy.arange(10, cut.max(), 5)
    lines = axes.contour(x, z, cut, levels=levels, colors="white", alpha=0.85,
                         linewidths=[1.2 if level % 10 == 0 else 0.5 for level in levels])  # fmt: skip
    deep = [v for v in levels if v % 10 == 0 and v > cut[-1].max() + 5]  # the others run through air too
    for label in axes.clabel(lines, levels=deep, fmt="%d °C", fontsize=8.5):
        label.set_path_effects([patheffects.withStroke(linewidth=1.5, foreground="#2b2d3355")])

    # Rock ends at the surface: the cells above it, and their isotherms, are air.
    ends = numpy.concatenate([[0], east, [width / 1000]])
    outline = numpy.concatenate([surface[:1], surface, surface[-1:]])
    rock = axes.fill_between(ends, outline, bottom, facecolor="none", edgecolor="none")
    for artist in (warmth, lines):
        artist.set_clip_path(rock.get_paths()[0], axes.transData)
    axes.plot(ends, outline, color=INK, linewidth=1.4)

    axes.set_xlim(0, width / 1000)
    axes.set_ylim(bottom, top + 0.12)
    axes.set_aspect("auto")
    axes.set_ylabel("height above sea level, km")
    bar = figure.colorbar(warmth, ax=axes, pad=0.015, fraction=0.035)
    bar.set_label("temperature, °C")
    bar.outline.set_visible(False)
    box = axes.get_window_extent()
    stretch = box.height / (top + 0.12 - bottom) / (box.width / (width / 1000))
    axes.set_xlabel(f"distance from west to east, km  (heights are stretched {stretch:.1f} times)")
    axes.spines[["top", "right"]].set_visible(False)


def draw_map(axes, heights, place, width, length):
    light = LightSource(azdeg=315, altdeg=40)
    shaded = light.shade(heights, cmap=RELIEF, vert_exag=0.03, blend_mode="soft")  # fmt: skip
    axes.imshow(shaded, origin="lower", extent=(0, width / 1000, 0, length / 1000), interpolation="bilinear")
    north = place * length / 1000
    axes.axhline(north, color="white", linewidth=3)
    axes.axhline(north, color="#d9602f", linewidth=1.6)
    axes.set_title("where the cut runs", fontsize=10, color=INK)
    axes.set_xlabel("east, km")
    axes.set_ylabel("north, km")
    axes.set_aspect("equal")
