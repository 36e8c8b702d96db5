"""A published table or figure, and the rows of benchmarks that are its counterpart here."""

import re
from dataclasses import dataclass, field
from typing import Callable

MORE, LESS, SAME = "more", "less", "same"  # is better
CLOSE = 1.25  # numbers that differ by a smaller factor agree


def rounded(number):
    """A number that is computed from two of the text, which has three digits."""
    return float(f"{number:.3g}")


def value(row):
    return row["value"]


def ms(row):
    return 1e3 * row["value"]


def mb(row):
    return row["value"] / 2**20


def per_cent(row):
    return 100 * row["ratio"]


def gain(row):
    """How many times as fast as its reference."""
    return 1 / row["ratio"]


def saved(row):
    """By how many per cent less than its reference."""
    return 100 * (1 - row["ratio"])


class Results:
    """The rows of all benchmarks that ran."""

    def __init__(self, by_bench):
        self._by_bench = by_bench

    def cases(self, bench, pattern):
        """The cases that match, and the text of the pattern's first group."""
        found = {row["case"]: re.fullmatch(pattern, row["case"]) for row in self._by_bench.get(bench, [])}
        return {match[1]: case for case, match in found.items() if match}

    def rows(self, bench, case, metric=""):
        """The rows of such a case, of metrics that begin so. A `*` in the case stands for any text."""
        first, star, last = case.partition("*")
        for row in self._by_bench.get(bench, []):
            found = row["case"]
            fits = found == case or star and found.startswith(first) and found.endswith(last)
            if fits and row["metric"].startswith(metric):
                yield row

    def row(self, bench, case, metric):
        return next((row for row in self.rows(bench, case, metric) if row["metric"] == metric), None)


def one(bench, case, metric, of=value):
    """A number from one row, or None if there is no such row."""

    def find(results):
        row = results.row(bench, case, metric)
        return None if row is None else of(row)

    return find


def of_two(first, second, together):
    def find(results):
        found = first(results), second(results)
        return None if None in found else together(*found)

    return find


class Here:
    """A chart from the rows. `groups` and `series`: for each label the words that fill in `bench`, `case` and `metric`; or
    `groups` is a pattern, and each case that matches it is a group. `of` makes a number of a row."""

    def __init__(self, groups, series, **words):
        self.groups, self.series = groups, series
        self._words = {"of": value, **words}

    def _find(self, results, of_series, of_group):
        words = {**self._words, **of_group, **of_series}
        case, metric = (words[name].format(**words) for name in ("case", "metric"))
        return one(words["bench"], case, metric, words["of"])(results)

    def chart(self, results):
        """Groups without any value are left out."""
        groups = self.groups
        if isinstance(groups, str):
            groups = {label: {"case": case} for label, case in results.cases(self._words["bench"], groups).items()}
        made = {
            label: [self._find(results, of_series, of_group) for of_series in self.series.values()]
            for label, of_group in groups.items()
        }
        made = {label: values for label, values in made.items() if any(one is not None for one in values)}
        by_series = zip(*made.values()) if made else [()] * len(self.series)
        return {"groups": list(made), "series": dict(zip(self.series, map(list, by_series)))}


class Steps:
    """A chart of rows whose metric ends with a number: a line for each series, which is the start of a metric."""

    def __init__(self, bench, case, series, of=value):
        self._bench, self._case, self.series, self._of = bench, case, series, of

    def chart(self, results):
        lines = {
            label: [self._of(row) for row in results.rows(self._bench, self._case, metric)]
            for label, metric in self.series.items()
        }
        longest = max(map(len, lines.values()), default=0)
        return {"groups": [str(step) for step in range(longest)], "series": lines}


@dataclass(frozen=True)
class Claim:
    """A number that the text of the paper states, and the same number here."""

    text: str
    published: float
    here: Callable  # of Results: the number, or None
    better: str = SAME
    unit: str = ""


@dataclass(frozen=True)
class Figure:
    name: str  # as in the paper: "Figure 7(a)"
    title: str
    kind: str = "bars"  # or stacked, lines, table
    y: str = ""
    x: str = ""
    groups: tuple = ()  # of the published chart
    published: dict = field(default_factory=dict)  # (series, group): a value that the text gives
    here: Here | Steps | None = None
    claims: tuple = ()
    needs: dict = field(default_factory=dict)  # benchmark: words of its --only
    why: str = ""  # the reason for the difference
    lacking: str = ""  # the part that this machine cannot show
    model: Callable | None = None  # of Results: (series, group): a number for that part
    drawing: str = ""  # it measures nothing: its content
