"""Compares the results of `mainstay` commands, beside a job or between two jobs, with their possible results."""

import json
import shutil
import zlib

import numpy

from .space import COMPLETE, STAGED
from .verdict import demand

GOOD, NOTHING, USAGE, NO_SPACE, REFUSED = range(5)
LOOKING = {"ls", "show", "verify", "advise", "export", "view"}


def judge_tool(space, ended, stage, session=None):
    """`session`: that of the job that has the space open, if any."""
    name, what = ended.words[0], f"mainstay {' '.join(map(str, ended.words))}: {ended.status}, {ended.err[-600:]}"
    demand("panicked" not in ended.err and 0 <= ended.status <= 4, what)
    if space.damaged:
        return
    if not space.exists:
        demand(ended.status in (NO_SPACE, NOTHING, GOOD, REFUSED), what)
        if name == "reserve":
            judge_reserve(space, ended, stage, session, what)
        return
    demand(ended.status != USAGE, what)
    allowed = {"ls": {GOOD}, "show": {GOOD}, "verify": {GOOD}, "advise": {GOOD, NOTHING}}.get(name)
    if allowed and (space.must_stay() or name == "advise"):
        demand(ended.status in allowed | ({NO_SPACE} if not space.must_stay() else set()), what)
    judge = globals().get("judge_" + name)
    if judge:
        judge(space, ended, stage, session, what)


def may_be(status, session):
    """The possible results of a command that needs the space for itself."""
    return status == (REFUSED if session else GOOD) or (session and session.doomed and status == GOOD)


def nothing_may_be_there(space):
    return not space.must_stay() and not any(attempt.fate in (COMPLETE, STAGED) for attempt in space.attempts)


def judge_ls(space, ended, stage, session, what):
    if "--json" not in ended.words or ended.status != GOOD:
        return
    found = json.loads(ended.out)
    listed = [one["revision"] for one in found["revisions"] if one["state"] in ("newest", "complete")]
    for number in listed:
        demand(space.numbered(number), f"{what}\nrevision {number} is there and cannot be")
    for attempt in space.must_stay_beside(listed):
        demand(attempt.number in listed, f"{what}\n{attempt} must be there, and there are {listed}")
    demand(
        space.clean is None or session or found["clean"] == space.clean,
        f"{what}\nthe last job has closed it: {ended.out[:300]}",
    )
    demand(not found["damage"], f"{what}\ndamage: {found['damage']}")


def judge_verify(space, ended, stage, session, what):
    if "--json" in ended.words and ended.out:
        verdicts = {one["revision"]: one["verdict"] for one in json.loads(ended.out)["revisions"]}
        complete = [number for number, verdict in verdicts.items() if verdict == "good" and space.numbered(number)]
        for attempt in space.must_stay_beside(complete):
            demand(verdicts.get(attempt.number) == "good", f"{what}\n{attempt} must be good: {verdicts}")


def judge_hold(space, ended, stage, session, what):
    """The newest complete revision, unless one is named."""
    if ended.status == GOOD and "--json" in ended.words:
        found = json.loads(ended.out)
        if found["counts"]:
            attempts = space.numbered(found["hold"]["revision"])
            demand(attempts, f"{what}\nrevision {found['hold']['revision']} cannot be there")
            if attempts[-1].fate == COMPLETE:
                space.held.append(attempts[-1])
    else:
        demand(ended.status in (NOTHING, REFUSED), what)


def judge_release(space, ended, stage, session, what):
    demand(ended.status in (GOOD, NOTHING, REFUSED), what)
    if ended.status == GOOD:
        space.held.clear()


def judge_export(space, ended, stage, session, what):
    demand(ended.status == GOOD or not space.must_stay() or session, what)
    if ended.status != GOOD or "--json" not in ended.words:
        return
    found = json.loads(ended.out)
    attempts = space.numbered(found["revision"])
    exported = {(one["shard"], one["item"]): bytes_of(stage.out / one["file"]) for one in found["files"]}
    shutil.rmtree(stage.out)
    demand(any(exported == saved(attempt) for attempt in attempts), f"{what}\nother bytes than were saved: {exported}")


def bytes_of(path):
    """Length and checksum of the content of an exported file."""
    data = numpy.load(path).tobytes() if path.suffix == ".npy" else path.read_bytes()
    return len(data), zlib.crc32(data)


def saved(attempt):
    return {(rank, name): item for rank, shard in enumerate(attempt.shards) for name, item in shard.items().items()}


def judge_view(space, ended, stage, session, what):
    demand(ended.status in (GOOD, NOTHING, REFUSED), what)
    demand(ended.status == GOOD or not space.must_stay() or session, what)


def judge_prune(space, ended, stage, session, what):
    # A job that did not end in order may have staged data in memory that the command does not see.
    waits = ended.status == REFUSED and not space.clean and "--give-up-staged" in ended.err
    demand(may_be(ended.status, session) or waits or nothing_may_be_there(space), what)
    if ended.status == GOOD and "--dry-run" not in ended.words:
        space.pruned(int(ended.words[ended.words.index("--keep-last") + 1]))


def judge_salvage(space, ended, stage, session, what):
    """It completes the data that was staged on the node with the visible memory."""
    demand(ended.status in (GOOD, NOTHING), what)
    if session or "--json" not in ended.words:
        return
    shards = json.loads(ended.out)["shards"]
    must = [attempt for attempt in space.attempts if attempt.fate == STAGED]
    for shard in shards:
        if must and shard["fate"] == "lost":
            demand(shard["revision"] != must[-1].number, f"{what}\n{must[-1]} was staged whole: {ended.out}")


def judge_reserve(space, ended, stage, session, what):
    demand(ended.status == GOOD or session or space.attempts, what)
    if ended.status == GOOD:
        space.exists = True


def judge_grow(space, ended, stage, session, what):
    demand(may_be(ended.status, session) or nothing_may_be_there(space), what)
