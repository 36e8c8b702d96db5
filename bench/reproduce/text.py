"""The document as text: lines for a terminal, and docs/reproduction.md."""

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
        "and one with pictures, `bench/out/reproduce.html`. The published values are those that the texts give. Absolute times",
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
                made += [
                    "",
                    f"### {figure['name']}: {figure['title']}",
                    figure["sentence"],
                    *table(figure),
                    "",
                    f"`{figure['command']}`",
                ]
    return "\n".join(made) + "\n"


def table(figure):
    if figure["lacking"]:
        yield ""
        yield f"Not shown: {figure['lacking']}."
    if figure["claims"]:
        yield ""
        yield "| number in the text | published | here | ratio | |"
        yield "|---|---|---|---|---|"
    for one in figure["claims"]:
        theirs, ours = both(one)
        yield f"| {one['text']} | {theirs} | {ours} | {number(one['ratio'])} | {one['verdict']} |"
    if figure["here"]["groups"] and len(figure["here"]["groups"]) <= 24:
        names = list(figure["here"]["series"])
        yield ""
        yield f"| here{', ' + figure['y'] if figure['y'] else ''} | " + " | ".join(names) + " |"
        yield "|---|" + "---|" * len(names)
        for at, group in enumerate(figure["here"]["groups"]):
            yield (
                f"| {group} | " + " | ".join(number(values[at]) for values in figure["here"]["series"].values()) + " |"
            )
