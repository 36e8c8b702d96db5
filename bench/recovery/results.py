"""Rows of the benchmark `recovery`, from the printed lines of its jobs."""

import json

from harness import confidence, rows
from run import clocked

# The answer to a failure: options of `mainstay run`.
IN_JOB = ["--restarts", "0", "--in-job"]
WAYS = {
    "spare": [*IN_JOB, "--spares", "1"],
    "shrunk": [*IN_JOB, "--recovery", "shrink"],
    "spawned": IN_JOB,
    "stopped": [*IN_JOB, "--spares", "1", "--heartbeat"],  # the time-out follows
    "restarted": ["--restarts", "1"],
}
ALLOWED_S, ALLOWED_S_MANY, MANY = 0.3, 0.5, 16  # ranks: as many or more may take longer
SPAWNED_S, STOPPED_S = 0.3, 0.5  # beside what MPI takes, and beside the heartbeat's time-out
ALLOWED = 1  # % of a run without failures, in Mainstay on the program's own threads
PARTS = ("notice", "group", "opening", "layout", "state", "step")
EACH = ", each"  # at the end of a case: what is drawn, and too much to read
SERIES = 10  # executed steps are told of in so many at once


def told_by(command):
    """The parts of the last recovery from `mainstay status --json`, in seconds; empty if there was none."""
    if command.returncode != 0:
        return {}
    found = find(json.loads(command.stdout), "recoveries")
    return {name: found[-1][f"{name}_ns"] / 1e9 for name in ("regroup", "open", "copies", "state")} if found else {}


def find(document, name):
    """The value with this name in a document, at any depth."""
    if isinstance(document, dict):
        if name in document:
            return document[name]
        document = list(document.values())
    if isinstance(document, list):
        return next((found for found in (find(part, name) for part in document) if found is not None), None)
    return None


def parts(lines, died, told):
    """The seconds from the death of a rank to the first step that all ranks have repeated, and their parts."""
    again = [line for line in lines if "rank" in line and line["again"] > died]
    recovered = [line for line in again if line["recover"] > 0]
    latest = {name: max(line[name] for line in again) for name in ("restore", "restored", "again")}
    found = dict.fromkeys(PARTS, 0)
    found["total"] = latest["again"] - died
    if recovered:
        begun, formed = min(line["recover"] for line in recovered), max(line["recovered"] for line in recovered)
        found["notice"] = begun - died
        found["opening"] = min(formed - begun, told.get("open", 0))
        found["group"] = formed - begun - found["opening"]
        # A spare may finish opening before or after the others.
        found["layout"] = max(0, latest["restore"] - formed)
    else:
        found["group"] = latest["restore"] - died  # the job's start
    found["state"] = latest["restored"] - latest["restore"]
    found["step"] = latest["again"] - latest["restored"]
    return found


def failure_rows(case, found, spawns, ranks, heartbeat_s):
    """Each way is compared with its allowance and with a job that is restarted."""
    allowed = ALLOWED_S_MANY if ranks >= MANY else ALLOWED_S
    totals = {way: [one["total"] for one in of_way] for way, of_way in found.items()}
    spawn_allowed = [rows.median(spawns) + SPAWNED_S]
    made = [
        rows.floor(case, "allowed", [allowed], "s"),
        rows.floor(case, "spawn_alone", spawns, "s"),
        rows.floor(case, "spawn_allowed", spawn_allowed, "s"),
        rows.floor(case, "stop_allowed", [heartbeat_s + STOPPED_S], "s"),
        rows.floor(case, "restarted", totals["restarted"], "s"),
        rows.row(case, "spare", totals["spare"], "s", "allowed", [allowed], 1),
        rows.row(case, "shrunk", totals["shrunk"], "s", "allowed", [allowed], 1),
        rows.row(case, "spawned", totals["spawned"], "s", "spawn_allowed", spawn_allowed, 1),
        rows.row(case, "stopped", totals["stopped"], "s", "stop_allowed", [heartbeat_s + STOPPED_S], 1),
    ]
    for way, of_way in found.items():
        made += [
            rows.row(case, f"{way}_{part}", [one[part] for one in of_way], "s", way, totals[way]) for part in PARTS
        ]
        made.append(rows.row(case, f"{way}_to_restarted", totals[way], "s", "restarted", totals["restarted"]))
    return made


def lost_rows(case, ends):
    """A job that loses ranks one after another, and the same job undisturbed: total time, and the time of each ten
    steps."""
    (calm, _), (disturbed, died) = ends["calm"], ends["disturbed"]
    # Rank 0 prints a line for each step. The line of the first step after a failure has another wording.
    calm_at, at = (
        sorted(line.get("at") or line["again"] for line in lines if line.get("rank", 0) == 0)
        for lines in (calm, disturbed)
    )
    took, calm_took = at[-1] - at[0], calm_at[-1] - calm_at[0]
    made = [
        rows.floor(case, "calm", [calm_took], "s"),
        rows.row(case, "disturbed", [took], "s", "calm", [calm_took]),
        rows.floor(case, "failures", [len(died)], "failures"),
        rows.floor(case, "calm_steps", [len(calm_at)], "steps"),
        rows.row(case, "executed_steps", [len(at)], "steps", "calm_steps", [len(calm_at)]),
    ]
    for first in range(0, len(at) - SERIES, SERIES):
        each = (at[first + SERIES] - at[first]) / SERIES
        made.append(rows.floor(case + EACH, f"step {first}", [each], "s"))
    for number, when in enumerate(died):
        before = sum(one <= when for one in at)
        made.append(rows.floor(case + EACH, f"failure {number}", [before], "steps"))
    return made


def calm_rows(case, runs):
    """The cost of being ready when no rank fails."""
    took, plain = ([max(run["run"]) for run in runs[side]] for side in ("ready", "none"))
    low, mean, high = confidence.interval([100 * (a / b - 1) for a, b in zip(took, plain)])
    return [
        rows.floor(case, "run_none", plain, "s"),
        rows.row(case, "run_ready", took, "s", "run_none", plain),
        rows.row(case, "overhead_low", [low], "%"),
        rows.row(case, "overhead", [mean], "%"),
        rows.row(case, "overhead_high", [high], "%"),
        rows.floor(case, "in_mainstay_allowed", [ALLOWED], "%"),
        rows.row(case, "in_mainstay", clocked.inside(runs["ready"], *clocked.CLOCKS), "%", "in_mainstay_allowed",
                 [ALLOWED], 1),
    ]  # fmt: skip
