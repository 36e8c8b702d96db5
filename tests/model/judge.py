"""Compares the results of a job with the possible results of its calls: step after step, over all ranks.

The only faults are deaths and damage, so every error must have a reason that the model knows. A new rule of the
interface belongs in `do_CALL` of its call: in this file for sessions and regions, in `judge_saves` for checkpoints, in
`judge_returns` for restores and reads. Errors that a rank may get in addition belong in `_mild`.
"""

from dataclasses import replace

from .comes_back import REFUSED
from .judge_returns import Returns
from .judge_saves import Saves
from .play import PANIC
from .program import has_deaths, nodes_of, ranks_of, words_of
from .space import BEGUN, STAGED, Text
from .verdict import INVALID, MAYBE, NO, OK, SMALL, UNREAD, YES, demand

OUTLIVES = ("pool", "node")  # stages whose staged shards outlive the job


def judge_job(space, job, played, tools):
    """Raises Wrong. `tools(ended, session)` judges the tools that ran beside the job."""
    judged = JudgedJob(space, job, played, tools)
    judged.judge()


class JudgedJob(Saves, Returns):
    def __init__(self, space, job, played, tools):
        self.space, self.job, self.played, self.tools = space, job, played, tools
        self.ranks, self.doomed = job["ranks"], has_deaths(job)
        settings = {key.removeprefix("MAINSTAY_").lower(): value for key, value in job["settings"].items()}
        self.keep, self.stage = int(settings.get("keep", 1)), settings.get("stage", "pool")
        self.is_sized = "portion_bytes" in settings  # no space grows then
        self.every_steps = int(settings.get("every_steps", 0))
        self.starts_fresh = settings.get("start") == "fresh"
        self.outputs = [None] * self.ranks  # bytes of the file, by rank
        self.end_session()

    def end_session(self):
        self.open, self.passed = False, False
        self.mine = [{} for _ in range(self.ranks)]  # regions by rank
        self.notes = [{} for _ in range(self.ranks)]
        self.with_output = [False] * self.ranks
        self.in_flight = None  # attempt between t2 and the report of its end
        self.begun = None  # attempt between begin and t2
        self.refused = False  # a begin was; its later calls are skipped
        self.left = NO  # whether ranks have left a checkpoint and no rank got a report
        self.unread = NO  # whether earlier sessions have saved data that this one has not read
        self.earlier = []  # the revisions that they have saved, as far as all ranks know

    # The result of the job as a whole.

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
            demand(
                all(mark == "end" for mark in played.marks.values()), f"a rank is gone: {played.marks}; {self.where()}"
            )
        elif self.open:
            self.dies()

    def where(self):
        """The last step of each rank."""
        last = {}
        for index, results in enumerate(self.played.results):
            for rank, result in results.items():
                last[rank] = (
                    f"rank {rank}: {'after' if result else 'in'} step {index}, {self.job['steps'][index]['call']}"
                )
        return "; ".join(last[rank] for rank in sorted(last))

    def told(self, what):
        return f"step {self.index}, {self.step['call']} {words_of(self.step, 0)}: {what}: {self.results}"

    def look_for_what_nobody_may_say(self):
        for status, _ in self.done.values():
            demand(status != "INTERNAL", self.told("a bug"))
            demand(status != "GROUP_FAILED" or self.doomed, self.told("no rank has died"))
            demand(
                status in ("OK", "PASSED", "GROUP_FAILED", *self._mild()), self.told("an error that nothing explains")
            )

    def _mild(self):
        """Errors that some call explains."""
        if self.space.damaged:
            return {"DAMAGED", "IO", "NOT_A_SPACE", "NEWER_VERSION", "OUT_OF_SIGHT", "LINEAGE_CONFLICT", "REVISION_MISSING",
                    "FENCED", "IN_USE", INVALID, SMALL, UNREAD, *REFUSED}  # fmt: skip
        return {INVALID, SMALL, UNREAD, "REVISION_MISSING", "DUPLICATE_NAME", "REGION_MISSING", *REFUSED}

    def statuses(self):
        return {status for status, _ in self.done.values() if status != "GROUP_FAILED"}

    def all_began(self):
        return all(result is not False for result in self.results.values())

    def all_ok(self):
        return len(self.done) == len(self.results) and self.statuses() == {OK} and not self.bereft()

    def bereft(self):
        return any(status == "GROUP_FAILED" for status, _ in self.done.values())

    def alike(self, *allowed):
        """The single status of all ranks that returned, one of `allowed`; None if no rank returned."""
        statuses = self.statuses()
        demand(len(statuses) <= 1, self.told("the ranks got different results"))
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
        self.space.opened(nodes_of(self.job), self.keep, bool(self.texts()))
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
        """Ranks are gone, or will be. Data that all or some ranks had handed over is in the memory of their nodes."""
        for attempt in (self.in_flight, self.begun):
            if attempt and self.stage in OUTLIVES:
                attempt.pools = frozenset(nodes_of(self.job))
                if attempt.fate == BEGUN and attempt.at_t2:
                    attempt.fate = STAGED
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
            self.mine[rank][name] = Text(
                0, 0, name, first * columns * 8, mine * columns * 8, (rows, columns, first, mine)
            )

    def do_same(self):
        self.alike(OK)
        for rank in self.done:
            (name,) = self.words(rank)
            self.mine[rank][name] = replace(self.mine[rank][name], same=True)

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

    def do_tick(self):
        self.alike(OK)

    def do_settled(self):
        for rank, (status, _) in self.done.items():
            name, offset, count = self.words(rank)
            mine = self.mine[rank].get(name)
            expected = "REGION_MISSING" if mine is None else OK if offset + count <= mine.bytes else INVALID
            demand(
                status in (expected, "PASSED", "GROUP_FAILED") or self.space.damaged,
                self.told(f"rank {rank}: {expected}"),
            )

    def do_output(self):
        self.alike(OK)
        for rank in self.done:
            self.with_output[rank] = True

    def do_append(self):
        for rank, result in self.results.items():
            if result:
                self.outputs[rank] = (self.outputs[rank] or 0) + self.words(rank)[0]
