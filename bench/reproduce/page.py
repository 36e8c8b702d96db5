"""One page that needs no network and no script: each figure beside its published counterpart."""

import base64
from html import escape

from harness import charts

from .judgement import both, number

STYLE = """
:root { color-scheme: light dark; --line: #ccc; --quiet: #666; }
@media (prefers-color-scheme: dark) { :root { --line: #444; --quiet: #aaa; } }
body { font: 16px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 2rem 0; border-top: 1px solid var(--line); }
.pair { display: flex; flex-wrap: wrap; gap: 1rem; }
.pair > * { flex: 1 1 24rem; min-width: 0; }
img { width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { border-bottom: 1px solid var(--line); padding: .15rem .6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.quiet, code { color: var(--quiet); font-size: .85rem; }
"""


def page(document):
    parts = [paper(one) for one in document["papers"]]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Mainstay: the figures of five papers</title>'
        f"<style>{STYLE}</style></head><body><h1>The figures of five papers</h1>"
        f'<p class="quiet">{escape(document["machine"])}<br>{escape(document["command"])}</p>'
        f"<p>Left: the values that the text of the paper gives. Right: the same measurement with Mainstay, on this machine. "
        "Absolute times belong to their machines; compare ratios.</p>"
        f"{summary(document)}{''.join(parts)}</body></html>\n"
    )


def summary(document):
    rows = [
        f"<tr><td>{escape(one['title'])}</td>" + "".join(f"<td>{count}</td>" for count in counts.values()) + "</tr>"
        for one in document["papers"]
        for counts in [verdicts(one)]
    ]
    names = "".join(f"<th>{name}</th>" for name in verdicts({"figures": []}))
    return f"<table><tr><th>figures and tables</th>{names}</tr>{''.join(rows)}</table>"


def verdicts(paper):
    counted = dict.fromkeys(("agrees", "better", "worse", "differs", "not measured"), 0)
    for figure in paper["figures"]:
        if not figure["drawing"]:
            counted[figure["verdict"]] += 1
    return counted


def paper(one):
    figures = "".join(drawing(figure) if figure["drawing"] else measured(figure) for figure in one["figures"])
    return f"<h2>{escape(one['title'])}</h2><p class='quiet'>{escape(one['source'])}</p>{figures}"


def drawing(figure):
    return f"<figure><h3>{escape(figure['name'])}</h3><p>It measures nothing: it draws {escape(figure['drawing'])}.</p></figure>"


def measured(figure):
    lacking = f"<p>Not shown: {escape(figure['lacking'])}.</p>" if figure["lacking"] else ""
    return (
        f"<figure><h3>{escape(figure['name'])}: {escape(figure['title'])}</h3>{pair(figure)}"
        f"<figcaption>{escape(figure['sentence'])}</figcaption>{lacking}{claims(figure)}"
        f"<code>{escape(figure['command'])}</code></figure>"
    )


def pair(figure):
    """The published side, and ours."""
    if figure["kind"] == "table":
        return f"<div class='pair'>{''.join(table(figure, side) for side in charts.SIDES)}</div>"
    drawn = base64.b64encode(charts.svg(figure).encode()).decode()
    return f'<img alt="{escape(figure["name"])}" src="data:image/svg+xml;base64,{drawn}">'


def table(figure, side):
    chart = figure[side]
    head = "".join(f"<th>{escape(name)}</th>" for name in chart["series"])
    rows = "".join(
        f"<tr><td>{escape(group)}</td>"
        + "".join(f"<td>{number(values[at])}</td>" for values in chart["series"].values())
        + "</tr>"
        for at, group in enumerate(chart["groups"])
    )
    return f"<div><table><tr><th>{side}</th>{head}</tr>{rows}</table></div>"


def claims(figure):
    rows = "".join(
        f"<tr><td>{escape(one['text'])}</td><td>{theirs}</td><td>{ours}</td>"
        f"<td>{number(one['ratio'])}</td><td>{one['verdict']}</td></tr>"
        for one in figure["claims"]
        for theirs, ours in [both(one)]
    )
    head = "<tr><th>number in the text</th><th>published</th><th>here</th><th>ratio</th><th></th></tr>"
    return f"<table>{head}{rows}</table>" if rows else ""
