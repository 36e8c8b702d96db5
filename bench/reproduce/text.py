"""The document as text: lines for a terminal, and docs/reproduction.md."""

import re

from harness import charts

from .judgement import both, number
from .page import verdicts


def lines(figure):
    yield f"{figure['name']}: {figure['title'] or 'a drawing'}"
    if figure["drawing"]:
        yield f"  it measures nothing: it draws {figure['drawing']}"
        return
    for one in figure["claims"]:
        theirs, ours = both(one)
        yield f"  {one['text']}: published {theirs}, here {ours}, ratio {number(one['ratio'])}: {one['verdict']}"
    yield f"  {figure['sentence']}"


def terminal(document):
    return "\n".join(line for paper in document["papers"] for figure in paper["figures"] for line in lines(figure))


def markdown(document):
    made = [
        "# The figures of five papers",
        "",
        "`make reproduce` measures what stands behind every table and figure of the papers that Mainstay unites, and writes this page",
        "and `bench/out/reproduce.html`. The published values are those that the texts give. Absolute times",
        "belong to their machines; compare ratios.",
        "",
        f"Measured on: {document['machine']}, by `{document['command']}`.",
        "",
        "| paper | agrees | better | worse | differs | not measured |",
        "|---|---|---|---|---|---|",
        *(f"| {one['title']} | " + " | ".join(map(str, verdicts(one).values())) + " |" for one in document["papers"]),
    ]
    for paper in document["papers"]:
        made += ["", f"## {paper['title']}", paper["source"], ""]
        made += [
            f"- {figure['name']} measures nothing: it draws {figure['drawing']}."
            for figure in paper["figures"]
            if figure["drawing"]
        ]
        for figure in paper["figures"]:
            if not figure["drawing"]:
                made += measured(paper, figure)
    return "\n".join(made) + "\n"


def measured(paper, figure):
    yield from ("", f"### {figure['name']}: {figure['title']}", figure["sentence"])
    if figure["lacking"]:
        yield from ("", f"Not shown: {figure['lacking']}.")
    yield from claims(figure)
    yield from tables(figure) if figure["kind"] == "table" else ("", f"![{figure['name']}]({picture(paper, figure)})")
    yield from ("", f"`{figure['command']}`")


def picture(paper, figure):
    """The file of its picture, beside the text."""
    plain = re.sub(r"[^a-z0-9]+", "-", figure["name"].lower()).strip("-")
    return f"pictures/reproduction/{paper['paper']}-{plain}.svg"


def pictures(document):
    """The file of each picture, and its text."""
    for paper in document["papers"]:
        for figure in paper["figures"]:
            if not figure["drawing"] and figure["kind"] != "table":
                yield picture(paper, figure), charts.svg(figure)


def claims(figure):
    if figure["claims"]:
        yield from ("", "| number in the text | published | here | ratio | |", "|---|---|---|---|---|")
    for one in figure["claims"]:
        theirs, ours = both(one)
        yield f"| {one['text']} | {theirs} | {ours} | {number(one['ratio'])} | {one['verdict']} |"


def tables(figure):
    for side in charts.SIDES:
        names, groups = list(figure[side]["series"]), figure[side]["groups"]
        if groups:
            yield from ("", f"| {side} | " + " | ".join(names) + " |", "|---|" + "---|" * len(names))
        for at, group in enumerate(groups):
            yield f"| {group} | " + " | ".join(number(figure[side]["series"][name][at]) for name in names) + " |"
