"""`make reproduce`: every table and figure of the five papers is listed, and comes onto one page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import browser  # noqa: F401
from limits import LIMIT_S

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from reproduce import document, judgement, page, text  # noqa: E402
from reproduce.figure import LESS, MORE, SAME, Claim, Here, Results  # noqa: E402

# As the papers number them. A figure with parts that show different things has a letter for each.
LISTED = {
    "000": {
        *(f"Table {number}" for number in ("I", "II", "III")),
        *(
            f"Figure {number}"
            for number in (
                "1(a)",
                "1(b)",
                "2(a)",
                "2(b)",
                "2(c)",
                3,
                4,
                5,
                "6(a)",
                "6(b)",
                "7(a)",
                "7(b)",
                "8(a)",
                "8(b)",
                9,
            )
        ),
    },
    "001": {f"Figure {number}" for number in range(1, 8)},
    "002": {f"Figure {number}" for number in (1, 2, "3(a)", "3(b)", 4, 5, 6, 7, 8)},
    "003": {"Slide 10", "Slide 11", "Slide 12", "Slide 16", "Slides 17 to 20", "Slide 23", "Slide 24", "Slide 25"},
    "004": {"Figure 1", "Figures 2 to 5", "Figure 6", "Figure 7", "Figure 8", "Table 1"},
}
EACH = [pytest.param(of, figure, id=f"{of.PAPER}, {figure.name}") for of, figure in document.chosen()]
MEASURED = [param for param in EACH if not param.values[1].drawing]


class Anything(Results):
    """Has every row that is asked for: 0.5 of its reference."""

    def cases(self, bench, pattern):
        return {"8": "8 of something"}

    def rows(self, bench, case, metric=""):
        yield {"case": case, "metric": metric, "value": 4.0, "ratio": 0.5, "reference": "segmented"}


def made(results, paper=""):
    return document.made(document.chosen(paper), results, "a machine", "make reproduce")


@pytest.mark.parametrize("paper", document.PAPERS, ids=lambda paper: paper.PAPER)
def test_every_table_and_figure_is_listed(paper):
    names = [figure.name for figure in paper.FIGURES if not figure.name.startswith("Text")]
    assert sorted(names) == sorted(LISTED[paper.PAPER])


@pytest.mark.parametrize("of, figure", MEASURED)
def test_a_figure_has_a_benchmark_and_a_reason(of, figure):
    for bench in figure.needs:
        assert (ROOT / "bench" / f"{bench}.py").exists(), bench
    assert figure.why and (figure.here or figure.claims)
    assert figure.needs or not figure.here


@pytest.mark.parametrize("of, figure", MEASURED)
def test_both_charts_have_the_same_series_in_the_same_order(of, figure):
    drawn = document.of_figure(of, figure, Anything({}))
    ours, theirs = list(drawn["here"]["series"]), list(drawn["published"]["series"])
    common = [name for name in ours if name in theirs]
    assert common == [name for name in theirs if name in ours]
    # No published number is left out of the chart.
    shown = [value for values in drawn["published"]["series"].values() for value in values if value is not None]
    assert len(shown) == len(figure.published)


@pytest.mark.parametrize(
    "better, published, here, verdict",
    [
        (MORE, 2.0, 4.0, "better"),
        (MORE, 2.0, 1.0, "worse"),
        (LESS, 2.0, 1.0, "better"),
        (LESS, 2.0, 4.0, "worse"),
        (LESS, 2.0, -1.0, "better"),
        (MORE, 2.0, 2.2, "agrees"),
        (SAME, 2.0, 4.0, "differs"),
        (SAME, 2.0, 1.9, "agrees"),
    ],
)
def test_a_number_is_judged(better, published, here, verdict):
    claims = [Claim("a number", published, lambda _: here, better)]
    found = list(judgement.judged(claims, None))
    assert found[0]["verdict"] == judgement.verdict(claims, found) == verdict


def test_a_row_that_is_missing_is_said_to_be():
    empty = made(Results({}))
    told = [figure for one in empty["papers"] for figure in one["figures"] if not figure["drawing"]]
    assert {figure["verdict"] for figure in told} <= {"not measured", "agrees"}
    # One formula of section 4.3 needs no rows.
    assert [figure["name"] for figure in told if figure["verdict"] == "agrees"] == ["Text, 4.3"]


def test_a_chart_has_the_rows_of_its_cases():
    rows = [
        {"case": f"adi, 2 x 40 MB, {side}", "metric": "overhead", "value": at}
        for at, side in enumerate(("rank", "pool, 64 MiB"))
    ]
    here = Here({"adi": {"program": "adi"}}, {"pool": {"side": "pool, 64 MiB"}, "none": {"side": "no"}},
                bench="run", case="{program}, *, {side}", metric="overhead")  # fmt: skip
    assert here.chart(Results({"run": rows})) == {"groups": ["adi"], "series": {"pool": [1], "none": [None]}}


def test_the_page_needs_no_network_and_no_script():
    """Of the paper that has every kind of figure: a picture takes long to draw."""
    figures = [figure for _, figure in document.chosen("002")]
    shown = page.page(made(Anything({}), "002"))
    assert {figure.kind for figure in figures} == {"bars", "stacked", "lines", "table"}
    assert all(f"<h3>{figure.name}" in shown for figure in figures)
    assert not re.search(r"<script|(src|href)=.?(?!data:)\w+:|https?:", shown)
    assert shown.count("<img ") == sum(figure.kind != "table" and not figure.drawing for figure in figures)


def test_the_text_has_every_figure_and_number():
    told = text.markdown(made(Anything({})))
    for _, figure in document.chosen():
        assert figure.name in told
        assert all(f"| {claim.text} |" in told for claim in figure.claims)


def test_one_figure_is_measured_by_itself(tmp_path):
    command = [sys.executable, ROOT / "bench" / "reproduce.py", "--paper", "002", "--figure", "4.3", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert "0.000977 %, ratio 1: agrees" in done.stdout, done
    assert (tmp_path / "reproduce.html").exists() and (tmp_path / "reproduce.json").exists()


@pytest.mark.campaign
def test_the_page_is_light_and_dark(browser, tmp_path):  # noqa: F811
    shown, pictures = tmp_path / "page.html", {}
    shown.write_text(page.page(made(Anything({}))))
    for scheme, option in (
        ("light", "--blink-settings=preferredColorScheme=1"),
        ("dark", "--blink-settings=preferredColorScheme=0"),
    ):
        picture = tmp_path / f"{scheme}.png"
        browser(shown, option, "--hide-scrollbars", f"--screenshot={picture}", "--window-size=1200,3000")
        pictures[scheme] = brightness(picture)
    assert pictures["light"] > 0.8 > 0.4 > pictures["dark"]


def brightness(picture):
    from matplotlib import image

    return float(image.imread(picture)[:, :, :3].mean())
