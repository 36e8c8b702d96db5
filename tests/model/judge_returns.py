"""The possible results of the calls that restore or read. Every byte must be the saved byte."""

import re

from .comes_back import REFUSED, restored
from .program import nodes_of
from .verdict import INVALID, MAYBE, NO, OK, Wrong, demand


class Returns:
    """A part of `JudgedJob`."""

    def newest(self):
        """The possible newest revisions now, and their reported numbers."""
        if self.in_flight and self.in_flight.at_t2 and self.left == NO and not self.space.damaged:
            return [self.in_flight]  # the call waits for it
        return self.space.candidates(nodes_of(self.job))

    def do_restore(self):
        self.leaves()
        if not self.all_began() and not self.done:
            return
        candidates = self.newest()
        status = self.alike(OK, *REFUSED)
        self.has_read(status)
        numbers = {int(re.match(r"R=(\d+)", text)[1]) for text in self.texts()}
        demand(len(numbers) <= 1, self.told("the ranks have different revisions"))
        if status == OK:
            (number,) = numbers
            self.was_restored(candidates, number)
        elif status in REFUSED:
            demand(any(one and restored(one, self.mine) is None for one in candidates) or self.space.damaged,
                   self.told(f"{[str(one) for one in candidates]} fit"))  # fmt: skip
        if status is not None:
            self.passed = status != OK
            self.in_flight, self.left = None, NO

    def was_restored(self, candidates, number):
        fit = [
            one
            for one in candidates
            if (one is None) == (number == 0) and (one is None or one.number in (number, None))
        ]
        demand(
            fit, self.told(f"revision {number} came back, and it can only be one of {[str(one) for one in candidates]}")
        )
        if number == 0:
            for rank, (status, text) in self.done.items():
                if status == OK:
                    self.outputs[rank] = self.output_told(text)
            return self.space.came_back(None, self.keep)
        why = []
        for attempt in fit:
            try:
                back = restored(attempt, self.mine)
                demand(back is not None, self.told(f"{attempt} does not fit the protected regions"))
                for rank, (status, text) in self.done.items():
                    if status == OK:
                        self.check_restored(attempt, rank, back[rank], text)
            except Wrong as wrong:
                why.append(str(wrong))
                continue
            attempt.number = number
            self.mine = back
            if len(attempt.shards) == self.ranks:
                self.outputs = [max(0, shard.output or 0) for shard in attempt.shards]
            return self.space.came_back(attempt, self.keep)
        raise Wrong("\n".join(why))

    def output_told(self, text):
        found = re.search(r" o:(-?\d+)", text)
        return max(0, int(found[1])) if found else None

    def check_restored(self, attempt, rank, back, text):
        skipped = int(re.search(r"skipped=(\d+)", text)[1])
        demand(skipped == 0 or self.space.damaged or self.space.gave_up, self.told("something was passed over"))
        regions = dict(re.findall(r" r:(\S+?):(\d+:\w+)", text))
        demand(regions == {name: f"{one.bytes}:{one.crc:08x}" for name, one in back.items()},
               self.told(f"rank {rank}: wrong bytes, {attempt} has {back}"))  # fmt: skip
        if len(attempt.shards) != self.ranks:
            return
        shard = attempt.shards[rank]
        streams = dict(re.findall(r" s:(\S+?):(\d+:\w+)", text))
        want = {name: "{}:{:08x}".format(*shard.items()[name]) for name in shard.streams}
        demand(streams == want, self.told(f"rank {rank}: wrong bytes of a stream, {attempt} has {want}"))
        if attempt.notes_known:
            demand(
                dict(re.findall(r" n:(\w+):(\S+)", text)) == shard.notes,
                self.told(f"rank {rank}: notes of {shard.notes}"),
            )
        if self.with_output[rank] and shard.output is not None:
            demand(
                self.output_told(text) == shard.output,
                self.told(f"rank {rank}: an output file of {shard.output} bytes"),
            )

    def do_read(self):
        pass

    def do_get(self):
        self.leave_for_a_look()
        revision, name = self.words(0)[:2]
        if not self.done:
            return
        found = self.looked_up(revision)
        status = self.alike(OK, INVALID, "REGION_MISSING", "RANK_COUNT", "REVISION_MISSING")
        self.has_read(status)
        if status == OK:
            numbers = {int(re.match(r"R=(\d+)", text)[1]) for text in self.texts()}
            demand(len(numbers) == 1, self.told("the ranks have different revisions"))
            (number,) = numbers
            fit = [
                one for one in found if (one is None) == (number == 0) and (one is None or one.number in (number, None))
            ]
            fit = [one for one in fit if one is None or self.is_what_came(one, name)]
            demand(fit, self.told(f"it can only be of {[(str(one), self.saved_as(one, name)) for one in found]}"))
            if fit[0]:
                fit[0].number = number
            if revision == 0 and self.left == NO:
                self.space.came_back(fit[0], self.keep)
                self.in_flight = None
        elif status is not None and not self.space.damaged:
            self.explain_get(status, revision, name, found)
        self.left = min(self.left, MAYBE)

    def looked_up(self, revision):
        if revision == 0:
            return self.newest()
        return self.space.numbered(revision)

    def leave_for_a_look(self):
        # The call itself may refuse because a checkpoint has begun, or may abandon the checkpoint.
        self.leaves()

    def is_what_came(self, attempt, name):
        if len(attempt.shards) != self.ranks:
            return False
        for rank, (status, text) in self.done.items():
            item = attempt.shards[rank].items().get(name)
            if status == OK and (item is None or text.split()[-1] != "{}:{:08x}".format(*item)):
                return False
        return True

    def saved_as(self, attempt, name):
        return attempt and ["{}:{:08x}".format(*shard.items().get(name, (0, 0))) for shard in attempt.shards]

    def explain_get(self, status, revision, name, found):
        if status == INVALID:
            room = [self.words(rank)[2] if self.step["call"] == "get" else 1 << 60 for rank in range(self.ranks)]
            small = any(one and any(room[rank] < shard.items().get(name, (0,))[0] for rank, shard in enumerate(one.shards[: self.ranks]))
                        for one in found)  # fmt: skip
            demand(self.left or small, self.told("an argument is refused"))
        elif status == "REVISION_MISSING":
            there = self.space.must_have(revision)
            demand(revision and not there, self.told(f"{[str(one) for one in there]} must be there"))
        elif status == "RANK_COUNT":
            demand(
                any(one and len(one.shards) != self.ranks for one in found), self.told("as many ranks have saved it")
            )
        elif status == "REGION_MISSING":
            lacks = any(one and any(name not in shard.items() for shard in one.shards) for one in found)
            demand(lacks, self.told("it is there on all ranks"))

    def do_get_bytes(self):
        self.leave_for_a_look()
        revision, name = self.words(0)
        if not self.done:
            return
        found = self.looked_up(revision)
        status = self.alike(OK, INVALID, "REGION_MISSING", "RANK_COUNT", "REVISION_MISSING")
        self.has_read(status)
        if status == OK and not self.space.damaged:
            for rank, (one, text) in self.done.items():
                lengths = {0 if it is None else it.shards[rank].items().get(name, (-1,))[0]
                           for it in found if it is None or len(it.shards) == self.ranks}  # fmt: skip
                demand(one != OK or int(text) in lengths, self.told(f"rank {rank} has {lengths}"))
        elif status is not None and not self.space.damaged:
            self.explain_get(status, revision, name, found)
        self.left = min(self.left, MAYBE)

    def do_reader(self):
        for rank, (status, text) in self.done.items():
            revision = self.words(rank)[1]
            if status == OK:
                check_read(self.space, text, self.told)
            elif not self.space.damaged:
                demand(status in ("REVISION_MISSING", "NOT_A_SPACE"), self.told("a reader"))
                there = self.space.must_have(revision)
                demand(not there, self.told(f"{[str(one) for one in there]} must be there"))


def check_read(space, text, told):
    """The bytes that a reader has found must all be of one revision."""
    number = int(re.match(r"R=(\d+)", text)[1])
    items = {(int(shard), name): value for shard, name, value in re.findall(r" (\d+):(\S+?):(\d+:\w+)", text)}
    found = space.numbered(number)
    for attempt in found:
        want = {
            (rank, name): "{}:{:08x}".format(*item)
            for rank, shard in enumerate(attempt.shards)
            for name, item in shard.items().items()
        }
        if items == want:
            attempt.number = number
            return
    raise Wrong(told(f"revision {number} is none of {[str(one) for one in found]}: {items}"))
