"""Makes a program that fails smaller, for as long as it fails in the same way."""

import copy
import re
import time

from .hold_against import why_wrong
from .program import has_deaths

TRIES = 3  # of a program with deaths, whose moments differ from run to run


def sort_of(why):
    """The error, without numbers and places."""
    match = re.match(r"act \d+: (?:step \d+, (\w+) .*?: )?(\D{0,24})", why or "")
    return match and match.groups()


def shrink(program, commands, why, seconds):
    """The smallest that was found in so much time, and why it is wrong."""
    end, sort = time.monotonic() + seconds, sort_of(why)
    while time.monotonic() < end:
        for smaller in smaller_ones(program):
            if time.monotonic() > end:
                break
            if is_sound(smaller) and (found := fails(smaller, commands, sort)):
                program, why = smaller, found
                break
        else:
            break
    return program, why


def fails(program, commands, sort):
    dies = any("job" in act and has_deaths(act["job"]) for act in program["acts"])
    for _ in range(TRIES if dies else 1):
        why = why_wrong(program, commands)
        if why and sort_of(why) == sort:
            return why
    return None


def smaller_ones(program):
    """Without acts from the end on, then without single acts, halves of steps, single steps, single settings."""
    acts = program["acts"]
    for end in range(1, len(acts)):
        yield {**program, "acts": acts[:end]}
    for index in range(len(acts)):
        yield {**program, "acts": acts[:index] + acts[index + 1 :]}
    for index, act in enumerate(acts):
        if "job" in act:
            for job in smaller_jobs(act["job"]):
                yield {**program, "acts": [*acts[:index], {"job": job}, *acts[index + 1 :]]}


def smaller_jobs(job):
    steps = job["steps"]
    for width in (8, 4, 2, 1):
        for at in range(0, len(steps), width):
            yield {**job, "steps": steps[:at] + steps[at + width :]}
    for key in job["settings"]:
        yield {**job, "settings": {name: value for name, value in job["settings"].items() if name != key}}
    if job["ranks"] > 1:
        yield fewer_ranks(job)


def fewer_ranks(job):
    job = copy.deepcopy(job)
    job["ranks"] -= 1
    job["nodes"].pop()
    for step in job["steps"]:
        if "ranks" in step:
            step["ranks"] = [rank for rank in step["ranks"] if rank < job["ranks"]]
    job["steps"] = [step for step in job["steps"] if step.get("ranks", True)]
    return job


def is_sound(program):
    """Whether all ranks make the collective calls that must be made by all, and every session has its end."""
    return bool(program["acts"]) and all(is_sound_job(act["job"]) for act in program["acts"] if "job" in act)


def is_sound_job(job):
    is_open = begun = left = False
    for step in job["steps"]:
        call = step["call"]
        if call == "open":
            if is_open:
                return False
            is_open = True
        elif call in ("close", "leave"):
            if left and call == "leave":
                return False
            is_open = False
        elif left and call in ("meet", "die", "pause"):
            return False  # ranks may wait for each other until a call of the session settles it
        elif call in ("meet", "die", "alarm", "sleep", "pause", "reader"):
            continue
        elif not is_open or ("ranks" in step and not (begun and call in ("checkpoint", "write", "poll"))):
            return False
        elif left and call == "checkpoint":
            return False
        if call == "checkpoint" and "ranks" in step:
            left = True
        elif call in ("wait", "begin", "restore", "put", "close"):
            left = False
        if call not in ("write", "poll"):
            begun = call == "begin"
    return not left and (not is_open or has_deaths(job))
