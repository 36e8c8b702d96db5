"""What a number of ours says about a published one, and the sentence under a figure."""

import math

from .figure import CLOSE, LESS, MORE, SAME

AGREES, BETTER, WORSE, DIFFERS, NOT_MEASURED = "agrees", "better", "worse", "differs", "not measured"
NEAR = 0.01
FACTOR_MAX = 100  # of one number: a zero counts as so much better


def factor(claim, here):
    """How many times as good ours is; where neither is better, how many times as large."""
    least = abs(claim.published) / FACTOR_MAX
    ours, theirs = max(here, least), max(claim.published, least)
    return theirs / ours if claim.better == LESS else ours / theirs


def of_factor(times, better):
    if 1 / CLOSE <= times <= CLOSE:
        return AGREES
    if better == SAME:
        return DIFFERS
    return BETTER if times > 1 else WORSE


def judged(claims, results):
    """The claims with our numbers."""
    for claim in claims:
        here = claim.here(results)
        made = {"text": claim.text, "unit": claim.unit, "published": claim.published, "here": here}
        if here is None:
            yield {**made, "ratio": None, "verdict": NOT_MEASURED}
        else:
            ratio = here / claim.published if claim.published else None
            yield {**made, "ratio": ratio, "verdict": of_factor(factor(claim, here), claim.better)}


def verdict(claims, judged_claims):
    """Of a figure: that of the mean of its numbers with a good direction, or else of all."""
    known = [(claim, one["here"]) for claim, one in zip(claims, judged_claims) if one["here"] is not None]
    if not known:
        return NOT_MEASURED
    directed = [pair for pair in known if pair[0].better != SAME]
    logs = [math.log(min(max(factor(*pair), 1 / FACTOR_MAX), FACTOR_MAX)) for pair in directed]
    if directed:
        return of_factor(math.exp(sum(logs) / len(logs)), MORE)
    return AGREES if all(one["verdict"] in (AGREES, NOT_MEASURED) for one in judged_claims) else DIFFERS


def number(value, unit="", digits=3):
    """With so many digits, and the unit."""
    if value is None:
        return "-"
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
    return f"{shown}{'' if unit in ('', '×') else ' '}{unit}"


def both(claim):
    """The published number as the text has it, and ours: with as many digits if it is nearly the same."""
    of_text = len(f"{claim['published']:g}".replace(".", "").lstrip("0"))
    is_near = claim["ratio"] is not None and abs(claim["ratio"] - 1) < NEAR
    return number(claim["published"], claim["unit"], of_text), number(
        claim["here"], claim["unit"], max(3, of_text) if is_near else 3
    )


def sentence(figure, judged_claims, found):
    """One sentence: the verdict, the number that it rests on, and the reason."""
    known = [one for one in judged_claims if one["here"] is not None]
    why = f" {figure.why[0].upper()}{figure.why[1:]}." if figure.why else ""
    if not known:
        return f"No number to compare.{why}" if not figure.claims else f"Not measured in this run.{why}"
    told = max(known, key=lambda one: one["verdict"] == found)
    theirs, ours = both(told)
    return f"{found.capitalize()}: {told['text']}: {ours} here, {theirs} published.{why}"
