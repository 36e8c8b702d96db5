"""The known content of a space. Deaths leave some of it unknown: a rank may die before it reports a result."""

import zlib
from dataclasses import dataclass, field
from functools import cache

from .content import content


@cache
def crc_of(tag, salt, name, start, count):
    return zlib.crc32(content(tag, salt, name, start, count))


@dataclass(frozen=True)
class Text:
    """The bytes of a region: content(...)."""

    tag: int
    salt: int
    name: str
    start: int
    bytes: int
    box: tuple = ()  # rows and columns of the global array, first row, rows
    same: bool = False  # the program has said so

    @property
    def crc(self):
        return crc_of(self.tag, self.salt, self.name, self.start, self.bytes)


@dataclass
class Shard:
    """The data that one rank saves."""

    regions: dict = field(default_factory=dict)  # by name: Text
    streams: dict = field(default_factory=dict)  # by name: bytearray
    notes: dict = field(default_factory=dict)
    output: int | None = None  # bytes of its file
    announced: int = 0

    def items(self):
        """Length and checksum of each item by name."""
        items = {name: (text.bytes, text.crc) for name, text in self.regions.items()}
        return items | {name: (len(data), zlib.crc32(data)) for name, data in self.streams.items()}


# The state of a begun revision.
BEGUN, STAGED, COMPLETE, DEAD = "begun", "staged", "complete", "dead"


@dataclass
class Attempt:
    """A revision that was begun. `number` is None if no rank lived to report it."""

    number: int | None
    shards: list
    keep: int  # revisions that stay where it becomes complete
    fate: str = BEGUN
    at_t2: bool = False  # on all ranks
    pools: frozenset = frozenset()  # nodes that may have its shards in memory; if it is STAGED, they have all
    notes_known: bool = True

    def __str__(self):
        return f"revision {self.number} ({self.fate})"


class Space:
    """One space, over all jobs and tools."""

    def __init__(self):
        self.attempts = []  # in the order in which they were begun
        self.kept = []  # the COMPLETE ones that must still exist, the newest last
        self.held = []  # the held ones
        self.exists = False  # None: unknown
        self.clean = None  # whether the last job has closed it; None: unknown
        self.damaged = False
        self.gave_up = False  # staged data on some node: a restore may report that it skipped it

    def candidates(self, pools):
        """The revisions that a restore may find as the newest, the newest first; None: no revision. `pools`: the nodes
        with visible memory."""
        found = []
        for attempt in reversed(self.attempts):
            if attempt.fate == DEAD:
                continue
            found.append(attempt)
            if not self.damaged and (
                attempt.fate == COMPLETE or (attempt.fate == STAGED and attempt.pools <= set(pools))
            ):
                return found
        return [*found, None]

    def opened(self, pools, keep, by_any):
        """A job opened the space and saw the memory of these nodes. Data on other nodes is given up. `by_any`: a rank
        reported the opening; if no rank did, all may have died before the space existed."""
        self.exists, self.clean = self.exists or by_any or None, None
        for attempt in self.attempts:
            if not attempt.pools <= set(pools):
                self.gave_up = True
                if attempt.fate == STAGED:
                    attempt.fate = BEGUN
            elif by_any and attempt.fate != STAGED:
                attempt.pools = frozenset()  # no data is left there
        self.kept = self.kept[-keep:]
        for attempt in self.unknown():
            attempt.keep = min(attempt.keep, keep)  # this job may complete it

    def complete(self, attempt, keep):
        """All ranks know that it is complete."""
        attempt.fate = COMPLETE
        if attempt in self.kept:
            self.kept = self.kept[: self.kept.index(attempt) + 1]
        else:
            self.kept.append(attempt)
        self.kept = self.kept[-keep:]

    def came_back(self, attempt, keep):
        """It is the newest revision: all later ones are lost."""
        if self.damaged:
            return
        for later in self.attempts[self.attempts.index(attempt) + 1 :] if attempt else self.attempts:
            later.fate = DEAD
        if attempt:
            self.complete(attempt, keep)

    def unknown(self):
        """Revisions after the last one known to be complete; they may be complete, too."""
        last = self.attempts.index(self.kept[-1]) + 1 if self.kept else 0
        return [attempt for attempt in self.attempts[last:] if attempt.fate in (BEGUN, STAGED)]

    def pruned(self, stay):
        """Prunes to the `stay` newest. Revisions that may be complete can be among them."""
        stay -= len(self.unknown())
        self.kept = self.kept[-stay:] if stay > 0 else []

    def possible(self):
        """The revisions that may be complete."""
        return [attempt for attempt in self.attempts if attempt.fate != DEAD]

    def numbered(self, number):
        """The revisions that may have this number."""
        return [attempt for attempt in self.attempts if attempt.fate != DEAD and attempt.number in (number, None)]

    def must_stay(self, pushed_out_by=0):
        """The revisions that must exist, if this number of later revisions is complete without a report: a kill cuts
        off the call that reports it. Each pushes out an older one."""
        stay = min((attempt.keep for attempt in self.unknown()), default=len(self.kept)) - pushed_out_by
        kept = self.kept if not pushed_out_by else self.kept[-stay:] if stay > 0 else []
        return [*self.held, *(attempt for attempt in kept if attempt not in self.held)]

    def must_stay_beside(self, numbers):
        """The same, if the revisions with these numbers are complete."""
        newest = (self.kept[-1].number or 0) if self.kept else 0
        return self.must_stay(sum(number > newest for number in numbers))

    def must_have(self, number):
        """The revisions that must exist under this number; 0 is any."""
        if number == 0:
            return self.must_stay()
        return [attempt for attempt in self.must_stay(len(self.unknown())) if attempt.number == number]
