"""The document from which page, text and pictures are made: each figure with its published values and ours."""

from . import judgement, modelled, paper_000, paper_001, paper_002, paper_003, paper_004

PAPERS = (paper_000, paper_001, paper_002, paper_003, paper_004)


def chosen(paper="", name=""):
    """Pairs of a paper and one of its figures, by the number of the paper and a part of the figure's name."""
    return [
        (of, figure)
        for of in PAPERS
        if paper in ("", of.PAPER)
        for figure in of.FIGURES
        if not name or name.lower() in figure.name.lower()
    ]


def needs(pairs):
    """The benchmarks to run, with the words of their --only; none of these: all cases."""
    made = {}
    for _, figure in pairs:
        for bench, words in figure.needs.items():
            made.setdefault(bench, []).append(words)
    return {bench: () if () in wanted else tuple(dict.fromkeys(sum(wanted, ()))) for bench, wanted in made.items()}


def made(pairs, results, machine, command):
    papers = {}
    for paper, figure in pairs:
        papers.setdefault(paper, []).append(of_figure(paper, figure, results))
    return {
        "machine": machine,
        "command": command,
        "papers": [
            {"paper": of.PAPER, "title": of.TITLE, "source": " ".join(of.__doc__.split()), "figures": figures}
            for of, figures in papers.items()
        ],
    }


def of_figure(paper, figure, results):
    said = {"name": figure.name, "title": figure.title, "drawing": figure.drawing}
    if figure.drawing:
        return said
    claims = list(judgement.judged(figure.claims, results))
    found = judgement.verdict(figure.claims, claims)
    here = figure.here.chart(results) if figure.here else {"groups": [], "series": {}}
    if figure.model:
        here = modelled.with_model(here, figure.model(results))
    return {
        **said,
        "kind": figure.kind,
        "x": figure.x,
        "y": figure.y,
        "published": published(figure, here),
        "here": here,
        "claims": claims,
        "verdict": found,
        "sentence": judgement.sentence(figure, claims, found),
        "lacking": figure.lacking,
        "command": f"make reproduce PAPER={paper.PAPER} FIGURE='{figure.name}'",
    }


def published(figure, here):
    """The published chart: our series in their order, where the paper has the same, and gaps where its text gives nothing."""
    of_text = dict.fromkeys(name for name, _ in figure.published)
    ours = [name for name in here["series"] if name in of_text or not of_text]
    names = [*ours, *(name for name in of_text if name not in ours)]
    values = {name: [figure.published.get((name, group)) for group in figure.groups] for name in names}
    return {"groups": list(figure.groups), "series": values}
