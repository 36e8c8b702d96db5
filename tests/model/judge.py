"""Holds what a job did against what its calls may come to: step after step, over all ranks.

No fault is put in but deaths, and damage, so that every error must have a reason that the model knows. A new rule of the
interface goes where its call is, in `_CALL`; what a rank may be told besides, into `allowed`.
"""

import re
from dataclasses import replace

from .comes_back import REFUSED, restored
from .content import content
from .play import PANIC
from .program import has_deaths, nodes_of, ranks_of, words_of
from .space import BEGUN, DEAD, STAGED, Attempt, Layout, Shard, Text
from .verdict import Wrong, demand

OK, INVALID, SMALL, UNREAD = "OK", "INVALID_ARGUMENT", "PORTION_TOO_SMALL", "NOT_RESTORED"
OUTLIVES = ("pool", "node")  # stages whose staged shards outlive the job
NO, MAYBE, YES = range(3)


def judge_job(space, job, played, tools):
    """Raises Wrong. `tools(ended, session)` judges what ran beside the job."""
    judged = JudgedJob(space, job, played, tools)
    judged.judge()


class JudgedJob:
    def __init__(self, space, job, played, tools):
        self.space, self.job, self.played, self.tools = space, job, played, tools
        self.ranks, self.doomed = job["ranks"], has_deaths(job)
        settings = {key.removeprefix("MAINSTAY_").lower(): value for key, value in job["settings"].items()}
        self.keep, self.stage = int(settings.get("keep", 1)), settings.get("stage", "pool")
        self.is_sized = "portion_bytes" in settings or "shard_bytes" in settings
        self.every_steps = int(settings.get("every_steps", 0))
        self.starts_fresh = settings.get("start") == "fresh"
        self.outputs = [None] * self.ranks  # bytes of the file, by rank
        self.end_session()

    def end_session(self):
        self.open, self.passed = False, False
        self.mine = [{} for _ in range(self.ranks)]  # regions by rank
        self.notes = [{} for _ in range(self.ranks)]
        self.with_output = [False] * self.ranks
        self.in_flight = None  # attempt between t2 and what tells of its end
        self.begun = None  # attempt between begin and t2
        self.refused = False  # a begin was; what belongs to it is passed over
        self.left = NO  # whether ranks have left a checkpoint and nobody was told
        self.unread = NO  # whether earlier sessions have saved something, and this one has read nothing of it
        self.earlier = []  # what they have saved, as far as all know

    # What came of the job as a whole.

    def judge(self):
        played = self.played
        demand(not PANIC.search(played.output), f"a crash:\n{played.output[-3000:]}")
        demand("WRONG" not in played.output, played.output[-3000:])
        for index, step in enumerate(self.job["steps"]):
            self.index, self.step = index, step
            self.results = {rank: played.results[index].get(rank, False) for rank in ranks_of(step, self.job)}
            self.done = {rank: result for rank, result in self.results.items() if result}
            self.look_for_what_nobody_may_say()
            if any(status == "PASSED" for status, _ in self.done.values()):
                demand(self.passed or not self.open or self.refused, self.told("passed over"))
                continue
            getattr(self, "do_" + step["call"])()
        demand(not played.hangs, f"it hangs; {self.where()}\n{played.output[-2000:]}")
        if not self.doomed:
            demand(played.status == 0, f"exit status {played.status}; {self.where()}\n{played.output[-3000:]}")
            demand(all(mark == "end" for mark in played.marks.values()), f"a rank is gone: {played.marks}; {self.where()}")
        elif self.open:
            self.dies()

    def where(self):
        """The last step of each rank."""
        last = {}
        for index, results in enumerate(self.played.results):
            for rank, result in results.items():
                last[rank] = f"rank {rank}: {'after' if result else 'in'} step {index}, {self.job['steps'][index]['call']}"
        return "; ".join(last[rank] for rank in sorted(last))

    def told(self, what):
        return f"step {self.index}, {self.step['call']} {words_of(self.step, 0)}: {what}: {self.results}"

    def look_for_what_nobody_may_say(self):
        for status, _ in self.done.values():
            demand(status != "INTERNAL", self.told("a bug"))
            demand(status != "GROUP_FAILED" or self.doomed, self.told("no rank has died"))
            demand(status in ("OK", "PASSED", "GROUP_FAILED", *self._mild()), self.told("an error that nothing explains"))

    def _mild(self):
        """Errors that some call explains."""
        if self.space.damaged:
            return {"DAMAGED", "IO", "NOT_A_SPACE", "NEWER_VERSION", "OUT_OF_SIGHT", "LINEAGE_CONFLICT", "REVISION_MISSING",
                    "FENCED", "IN_USE", INVALID, SMALL, UNREAD, *REFUSED}  # fmt: skip
        return {INVALID, SMALL, UNREAD, "REVISION_MISSING", "DUPLICATE_NAME", *REFUSED}

    def statuses(self):
        return {status for status, _ in self.done.values() if status != "GROUP_FAILED"}

    def all_began(self):
        return all(result is not False for result in self.results.values())

    def all_ok(self):
        return len(self.done) == len(self.results) and self.statuses() == {OK} and not self.bereft()

    def bereft(self):
        return any(status == "GROUP_FAILED" for status, _ in self.done.values())

    def alike(self, *allowed):
        """The one status that all ranks that came back have, one of `allowed`; None if none came back."""
        statuses = self.statuses()
        demand(len(statuses) <= 1, self.told("the ranks were told different things"))
        if self.space.damaged:
            return next(iter(statuses), None)
        demand(statuses <= set(allowed), self.told(f"allowed is {' or '.join(allowed)}"))
        return next(iter(statuses), None)

    def texts(self):
        return [text for status, text in self.done.values() if status == OK]

    def words(self, rank):
        return words_of(self.step, rank)

    # Sessions.

    def do_open(self):
        self.end_session()
        if not self.all_began() and not self.done:
            return
        self.open = True
        self.space.opened(nodes_of(self.job), self.keep)
        self.earlier = list(self.space.kept)
        if not self.starts_fresh and self.space.possible():
            self.unread = YES if self.earlier else MAYBE
        status = self.alike(OK)
        self.passed = status not in (OK, None)

    def do_close(self):
        if not self.open:
            return
        told = self.alike(*self.after_left(OK))
        self.settled(told)
        if self.all_ok():
            self.space.clean = True
        if told is not None or self.all_began():
            if told is None and self.in_flight:
                self.dies()
            self.end_session()

    def dies(self):
        """Ranks are gone, or will be. What all had handed over is in the memory of their nodes."""
        for attempt in (self.in_flight, self.begun):
            if attempt and attempt.fate == BEGUN and attempt.at_t2 and self.stage in OUTLIVES:
                attempt.fate, attempt.pools = STAGED, frozenset(nodes_of(self.job))
        self.space.clean = None

    def do_leave(self):
        if self.open:
            self.dies()

    def do_env(self):
        pass

    do_meet = do_sleep = do_die = do_alarm = do_env

    def do_pause(self):
        for ended in self.played.tools.get(self.index, []):
            self.tools(ended, self)

    # Regions, notes, files.

    def do_protect(self):
        self.alike(OK)
        for rank in self.done:
            name, count, salt = self.words(rank)
            self.mine[rank][name] = Text(0, salt, name, 0, count)

    def do_box(self):
        self.alike(OK)
        for rank in self.done:
            name, rows, columns, first, mine = self.words(rank)
            self.mine[rank][name] = Text(0, 0, name, first * columns * 8, mine * columns * 8, (rows, columns, first, mine))

    def do_unprotect(self):
        self.alike(OK)
        for rank in self.done:
            del self.mine[rank][self.words(rank)[0]]

    def do_fill(self):
        for rank in self.results:
            (tag,) = self.words(rank)
            self.mine[rank] = {name: replace(text, tag=tag) for name, text in self.mine[rank].items()}

    def do_note(self):
        self.alike(OK)
        for rank in self.done:
            name, value = self.words(rank)
            self.notes[rank][name] = str(value)

    def do_output(self):
        self.alike(OK)
        for rank in self.done:
            self.with_output[rank] = True

    def do_append(self):
        for rank, result in self.results.items():
            if result:
                self.outputs[rank] = (self.outputs[rank] or 0) + self.words(rank)[0]

    # Checkpoints.

    def shard(self, rank):
        output = (self.outputs[rank] or 0) if self.with_output[rank] else None
        return Shard(dict(self.mine[rank]), {}, dict(self.notes[rank]), output)

    def new_attempt(self, shards):
        attempt = Attempt(None, shards)
        self.space.attempts.append(attempt)
        return attempt

    def after_left(self, *statuses):
        """What a call that tells what became of the last revision may come to."""
        return {NO: statuses, MAYBE: (*statuses, INVALID), YES: (INVALID,)}[self.left]

    def settled(self, status):
        """A call was made that tells all ranks what became of the revision before; it came to `status`."""
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
        """What a call that saves may come to: refused where earlier sessions have saved what this one has not read. One
        that only adds to what is there, only where something has to go."""
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
        """Errors that a new revision of these shards may meet at t1."""
        refused = set()
        if not any(shard.regions or shard.announced for shard in shards):
            refused.add(INVALID)
        layout, retained = self.space.layout, self.space.retained()
        has_room = layout and not self.space.was_held and layout.has_room(shards, retained, self.keep, self.stage)
        is_there = layout and layout.ranks == self.ranks
        # What sizes a layout before its first checkpoint may give too little room for keep + 1 of these.
        is_sized = self.is_sized or self.space.reserved_ranks == self.ranks
        if (is_there and not has_room) or (not is_there and is_sized):
            refused.add(SMALL)
        return refused

    def makes_layout(self, shards, is_made):
        """The first checkpoint of so many ranks makes one."""
        layout = self.space.layout
        if layout is None or layout.ranks != self.ranks:
            # Settings of its size are no promise of keep + 2.
            known_size = is_made and self.ranks not in self.space.ranks_seen and not self.is_sized
            self.space.ranks_seen.add(self.ranks)
            self.space.layout = Layout(self.ranks, self.keep, shards if known_size else None, self.stage)

    def number_told(self, attempt):
        numbers = {int(re.match(r"R=(\d+)", text)[1]) for text in self.texts()}
        demand(len(numbers) <= 1, self.told("the ranks have different numbers"))
        for number in numbers:
            known = [other.number for other in self.space.attempts if other is not attempt and other.fate != DEAD and other.number]
            demand(number > max(known, default=0), self.told(f"numbers only grow, and {max(known, default=0)} was there"))
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
            self.makes_layout(shards, attempt.at_t2)

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
            self.makes_layout(shards, self.all_ok())

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
        """The end of what was begun, on all ranks or on some."""
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
            demand(attempt.number in (None, int(re.match(r"R=(\d+)", text)[1])), self.told("another number than begin's"))
        attempt.at_t2 = self.all_ok()

    def do_abandon(self):
        if self.begun:
            self.begun.fate, self.begun = DEAD, None
            self.alike(OK)
        else:
            self.alike(INVALID)

    def leaves(self):
        """All ranks have left what was begun, if anything was."""
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
        before, refused = self.left, {SMALL} if smaller else self.refusals(shards)
        statuses = self.saving(OK, *refused, adds=True)
        status = self.alike(*(self.after_left() if before == YES else self.after_left(*statuses)))
        self.settled(OK if before == NO and status is not None else status)
        if status in (OK, None):
            attempt = self.new_attempt(shards)
            attempt.notes_known = False
            self.number_told(attempt)
            self.makes_layout(shards, self.all_ok())
            if status == OK:
                self.space.complete(attempt, self.keep)
            else:
                # Past its t2 it may be complete in the end; where no rank has told, nobody knows.
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
        demand(len(set(self.texts())) <= 1, self.told("the ranks were told different things"))
        if self.every_steps and self.texts():
            demand(self.texts()[0] == str(int(self.words(0)[0] % self.every_steps == 0)), self.told("due by steps"))

    # What comes back.

    def newest(self):
        """What the newest revision may be now, and as what it is told."""
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
        fit = [one for one in candidates if (one is None) == (number == 0) and (one is None or one.number in (number, None))]
        demand(fit, self.told(f"revision {number} came back, and it can only be one of {[str(one) for one in candidates]}"))
        if number == 0:
            for rank, (status, text) in self.done.items():
                if status == OK:
                    self.outputs[rank] = self.output_told(text)
            return self.space.came_back(None, self.keep)
        why = []
        for attempt in fit:
            try:
                back = restored(attempt, self.mine)
                demand(back is not None, self.told(f"{attempt} does not fit what is protected"))
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
            demand(dict(re.findall(r" n:(\w+):(\S+)", text)) == shard.notes, self.told(f"rank {rank}: notes of {shard.notes}"))
        if self.with_output[rank] and shard.output is not None:
            demand(self.output_told(text) == shard.output, self.told(f"rank {rank}: an output file of {shard.output} bytes"))

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
            fit = [one for one in found if (one is None) == (number == 0) and (one is None or one.number in (number, None))]
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
        # The call itself may refuse, as a checkpoint has begun, or give that up.
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
            there = [one for one in self.space.must_stay() if one.number == revision]
            demand(revision and not there, self.told(f"{[str(one) for one in there]} must be there"))
        elif status == "RANK_COUNT":
            demand(any(one and len(one.shards) != self.ranks for one in found), self.told("as many ranks have saved it"))
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
        self.space.was_held = True
        for rank, (status, text) in self.done.items():
            revision = self.words(rank)[1]
            if status == OK:
                check_read(self.space, text, self.told)
            elif not self.space.damaged:
                demand(status in ("REVISION_MISSING", "NOT_A_SPACE"), self.told("a reader"))
                there = self.space.must_stay() if revision == 0 else [one for one in self.space.must_stay() if one.number == revision]
                demand(not there, self.told(f"{[str(one) for one in there]} must be there"))


def check_read(space, text, told):
    """What a reader has found must be one revision, every byte of it."""
    number = int(re.match(r"R=(\d+)", text)[1])
    items = {(int(shard), name): value for shard, name, value in re.findall(r" (\d+):(\S+?):(\d+:\w+)", text)}
    found = space.numbered(number)
    for attempt in found:
        want = {(rank, name): "{}:{:08x}".format(*item) for rank, shard in enumerate(attempt.shards) for name, item in shard.items().items()}
        if items == want:
            attempt.number = number
            return
    raise Wrong(told(f"revision {number} is none of {[str(one) for one in found]}: {items}"))

