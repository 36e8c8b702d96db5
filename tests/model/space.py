"""What is in a space, as far as anybody can know who was told what its calls came to."""

import zlib
from dataclasses import dataclass, field
from functools import cache

from .content import content

BLOCK = 4096


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

    @property
    def crc(self):
        return crc_of(self.tag, self.salt, self.name, self.start, self.bytes)


@dataclass
class Shard:
    """What one rank saves."""

    regions: dict = field(default_factory=dict)  # by name: Text
    streams: dict = field(default_factory=dict)  # by name: bytearray
    notes: dict = field(default_factory=dict)
    output: int | None = None  # bytes of its file
    announced: int = 0

    def blocks(self):
        return sum(-(-text.bytes // BLOCK) for text in self.regions.values()) + -(-self.announced // BLOCK)

    def items(self):
        """Length and checksum of each item by name."""
        items = {name: (text.bytes, text.crc) for name, text in self.regions.items()}
        return items | {name: (len(data), zlib.crc32(data)) for name, data in self.streams.items()}


# What became of a revision that was begun.
BEGUN, STAGED, COMPLETE, DEAD = "begun", "staged", "complete", "dead"


@dataclass
class Attempt:
    """A revision that was begun; `number` is None where no rank lived to tell it."""

    number: int | None
    shards: list
    fate: str = BEGUN
    at_t2: bool = False  # on all ranks
    pools: frozenset = frozenset()  # nodes in whose memory it lies, if it is STAGED
    notes_known: bool = True

    def __str__(self):
        return f"revision {self.number} ({self.fate})"


@dataclass
class Layout:
    """What the portions of the newest layout have room for: keep + 2 shards as large as these."""

    ranks: int
    keep: int = 0
    shards: list | None = None  # None: nobody knows
    blocks: int | None = None  # of each rank, where it was reserved
    stage: str = ""

    def has_room(self, shards, keep, stage):
        """Whether it must have room for them, whatever is kept."""
        if len(shards) != self.ranks or keep > self.keep:
            return False
        if self.blocks is not None:
            return all(not s.announced and len(s.regions) <= 8 and s.blocks() <= self.blocks for s in shards)
        return self.shards is not None and all(map(self._fits, shards, self.shards, [stage] * len(shards)))

    def _fits(self, new, first, stage):
        if new.announced > first.announced:
            return False
        larger = (name not in first.regions or text.bytes > first.regions[name].bytes for name, text in new.regions.items())
        if stage == self.stage and not any(larger):
            return True
        return new.blocks() + 2 * len(new.regions) + 6 <= first.blocks()


class Space:
    """One space, over all jobs and tools."""

    def __init__(self):
        self.attempts = []  # in the order in which they were begun
        self.kept = []  # those of COMPLETE that must still be there, the newest last
        self.held = []  # those that somebody holds
        self.was_held = False  # or read beside a job: holds may take room
        self.layout = None
        self.ranks_seen = set()  # numbers of ranks that layouts were made for
        self.exists = False
        self.clean = None  # whether the last job has closed it; None: nobody knows
        self.damaged = False

    def candidates(self, pools):
        """What may come back as the newest revision, the newest first; None: nothing at all. `pools`: the nodes whose
        memory is looked at."""
        found = []
        for attempt in reversed(self.attempts):
            if attempt.fate == DEAD:
                continue
            found.append(attempt)
            if not self.damaged and (attempt.fate == COMPLETE or (attempt.fate == STAGED and attempt.pools <= set(pools))):
                return found
        return [*found, None]

    def opened(self, pools, keep):
        """By a job that looks at the memory of these nodes: what lies on others is given up."""
        self.exists, self.clean = True, None
        for attempt in self.attempts:
            if attempt.fate == STAGED and not attempt.pools <= set(pools):
                attempt.fate = BEGUN
        self.kept = self.kept[-keep:]

    def complete(self, attempt, keep):
        """All know that it is."""
        attempt.fate = COMPLETE
        if attempt in self.kept:
            self.kept = self.kept[: self.kept.index(attempt) + 1]
        else:
            self.kept.append(attempt)
        self.kept = self.kept[-keep:]

    def came_back(self, attempt, keep):
        """It is the newest: what was begun after it is lost."""
        if self.damaged:
            return
        for later in self.attempts[self.attempts.index(attempt) + 1 :] if attempt else self.attempts:
            later.fate = DEAD
        if attempt:
            self.complete(attempt, keep)

    def numbered(self, number):
        """What may be under this number."""
        return [attempt for attempt in self.attempts if attempt.fate != DEAD and attempt.number in (number, None)]

    def must_stay(self):
        return [*self.held, *(attempt for attempt in self.kept if attempt not in self.held)]
