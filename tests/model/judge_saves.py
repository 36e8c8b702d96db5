"""The possible results of the calls that save: checkpoints, whole or in pieces, and put buffers."""

import re

from .content import content
from .space import DEAD, Attempt, Shard, Text
from .verdict import INVALID, MAYBE, NO, OK, SMALL, UNREAD, YES, demand


class Saves:
    """A part of `JudgedJob`."""

    def shard(self, rank):
        output = (self.outputs[rank] or 0) if self.with_output[rank] else None
        return Shard(dict(self.mine[rank]), {}, dict(self.notes[rank]), output)

    def new_attempt(self, shards):
        attempt = Attempt(None, shards, self.keep)
        self.space.attempts.append(attempt)
        return attempt

    def after_left(self, *statuses):
        """The possible results of a call that reports the end of the last revision."""
        return {NO: statuses, MAYBE: (*statuses, INVALID), YES: (INVALID,)}[self.left]

    def settled(self, status):
        """A call reported the end of the revision before to all ranks, with `status`."""
        if status is None:
            return
        if self.in_flight and self.left == NO:
            if status == OK:
                self.space.complete(self.in_flight, self.keep)
                self.in_flight = None
        elif status == INVALID or self.left != NO:
            self.in_flight = None
            self.left = NO

    def saving(self, *statuses, adds=False):
        """The possible results of a call that saves. It is refused if earlier sessions have saved data that this one
        has not read. A call that only adds data is refused only if an older revision has to go."""
        unread = self.unread
        if adds and unread != NO and len(self.space.possible()) < self.keep:
            unread = NO
        elif adds and (len(self.space.kept) < self.keep or not any(one in self.earlier for one in self.space.kept)):
            unread = min(unread, MAYBE)
        return {NO: statuses, MAYBE: (*statuses, UNREAD), YES: (UNREAD,)}[unread]

    def has_read(self, status):
        if status == OK:
            self.unread = NO

    def refusals(self, shards):
        """Errors that a new revision of these shards may get at t1."""
        refused = set()
        if not any(shard.regions or shard.announced for shard in shards):
            refused.add(INVALID)
        if self.is_sized:
            refused.add(SMALL)
        return refused

    def number_told(self, attempt):
        numbers = {int(re.match(r"R=(\d+)", text)[1]) for text in self.texts()}
        demand(len(numbers) <= 1, self.told("the ranks have different numbers"))
        for number in numbers:
            known = [
                other.number
                for other in self.space.attempts
                if other is not attempt and other.fate != DEAD and other.number
            ]
            # A number that exists only in damaged files is not visible.
            grows = number > max(known, default=0) or self.space.damaged
            demand(grows, self.told(f"numbers only grow, and {max(known, default=0)} was there"))
            attempt.number = number

    def do_checkpoint(self):
        if self.begun:
            return self.finish()
        shards = [self.shard(rank) for rank in range(self.ranks)]
        if not self.all_began():
            return
        before, refused = self.left, self.refusals(shards)
        must_fail = INVALID in refused
        ok = () if must_fail else (OK,)
        status = self.alike(*(self.after_left() if before == YES else self.after_left(*self.saving(*ok, *refused))))
        if before == NO or status != INVALID:
            self.settled(OK if status in (OK, SMALL) or (status == INVALID and must_fail) else status)
        else:
            self.settled(status)
        if status in (OK, None):
            attempt = self.new_attempt(shards)
            self.number_told(attempt)
            attempt.at_t2 = self.all_ok()
            self.in_flight = attempt

    def do_begin(self):
        self.leaves()
        shards = [self.shard(rank) for rank in range(self.ranks)]
        for rank in range(self.ranks):
            shards[rank].announced = self.words(rank)[0]
        if not self.all_began():
            return
        before, refused = self.left, self.refusals(shards)
        ok = () if INVALID in refused else (OK,)
        status = self.alike(*(self.after_left() if before == YES else self.after_left(*self.saving(*ok, *refused))))
        self.settled(OK if before == NO and status is not None else status)
        self.refused = status not in (OK, None)
        if status in (OK, None):
            self.begun = self.new_attempt(shards)
            self.number_told(self.begun)

    def do_write(self):
        if not self.begun:
            # It was refused, or died.
            return
        self.alike(OK)
        for rank, result in self.results.items():
            if result is False:
                continue
            name, start, count, tag = self.words(rank)
            data = self.begun.shards[rank].streams.setdefault(name, bytearray())
            if len(data) < start + count:
                data.extend(bytes(start + count - len(data)))
            data[start : start + count] = content(tag, rank + 1, name, start, count)

    def finish(self):
        """The end of a begun checkpoint, on all ranks or on some."""
        attempt, self.begun = self.begun, None
        for rank in range(self.ranks):
            attempt.shards[rank].regions = dict(self.mine[rank])
        if len(self.results) < self.ranks:
            # The others leave it.
            attempt.fate, self.left = DEAD, YES
            return
        self.in_flight = attempt
        if not self.all_began():
            attempt.fate = DEAD
            return
        self.alike(OK)
        for text in self.texts():
            demand(
                attempt.number in (None, int(re.match(r"R=(\d+)", text)[1])), self.told("another number than begin's")
            )
        attempt.at_t2 = self.all_ok()

    def do_abandon(self):
        if self.begun:
            self.begun.fate, self.begun = DEAD, None
            self.alike(OK)
        else:
            self.alike(INVALID)

    def leaves(self):
        """All ranks have left the begun checkpoint, if there was one."""
        if self.begun:
            self.begun.fate, self.begun, self.left = DEAD, None, YES

    def do_put(self, smaller=0):
        self.leaves()
        if not self.all_began():
            return
        shards = [self.shard(rank) for rank in range(self.ranks)]
        for rank, shard in enumerate(shards):
            name, count, tag = self.words(rank)[0], self.words(rank)[1], self.words(rank)[-1]
            if smaller and (found := re.search(r"bytes=(\d+)", (self.results[rank] or ("", ""))[1])):
                count = int(found[1])
            shard.regions[name] = Text(tag, rank + 1, name, 0, count)
        before, refused = self.left, self.refusals(shards)
        refused = {SMALL} & refused if smaller else refused
        statuses = self.saving(OK, *refused, adds=True)
        status = self.alike(*(self.after_left() if before == YES else self.after_left(*statuses)))
        self.settled(OK if before == NO and status is not None else status)
        if status in (OK, None):
            attempt = self.new_attempt(shards)
            attempt.notes_known = False
            self.number_told(attempt)
            if status == OK:
                self.space.complete(attempt, self.keep)
            else:
                # After its t2 it may still become complete. If no rank has reported it, its state is unknown.
                self.in_flight = attempt

    def do_put_largest(self):
        self.do_put(smaller=1)

    def do_wait(self):
        self.leaves()
        told = self.alike(*self.after_left(OK))
        self.settled(told)

    def do_poll(self):
        demand(self.statuses() <= {OK, *((INVALID,) if self.left or self.begun else ())}, self.told("poll"))

    def do_due(self):
        self.alike(*self.saving(OK))
        demand(len(set(self.texts())) <= 1, self.told("the ranks got different results"))
        if self.every_steps and self.texts():
            demand(self.texts()[0] == str(int(self.words(0)[0] % self.every_steps == 0)), self.told("due by steps"))
