"""The programs with early saved checkpoints, scaled: the command to start a job of each, and its printed lines."""

import dataclasses
import re
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# From paper 004: MEMWRITE's memory in each process, its time, and the bandwidth of the server.
MEMWRITE_MB, MEMWRITE_SECONDS, BANDWIDTH = 300, 944, 30e6
CHECKPOINTS = {"memwrite": 8, "adi": 10}
LEARN = 2  # intervals between checkpoints
EARLY = re.compile(r"(\d+) of (\d+) blocks(?: early)?, (\d+) in vain")
IN_ALL = re.compile(r"^checkpoint \d+: (\S+) s in all$", re.M)
DURABLE = re.compile(r"^checkpoint \d+ of step \d+: t1 (\S+) s, t2-t1 (\S+) ms, t3-t1 (\S+) ms$", re.M)


@dataclasses.dataclass
class Ran:
    """The result of a job on rank 0, without the first checkpoint, which saves everything on every side."""

    seconds: float  # in checkpoints, durable
    learnt: float  # of that, once the predictor has had LEARN intervals to learn from
    dirty: int = 0  # blocks that were written between checkpoints
    early: int = 0
    vain: int = 0
    interval: float = 0.0  # seconds from one checkpoint to the next, where the program has no pace of its own
    between: float = 0.0  # seconds of its own in those that count as learnt: without t1 to t2


def blocks(output):
    found = EARLY.search(output)
    return dict(zip(("early", "dirty", "vain"), map(int, found.groups()))) if found else {}


class Memwrite:
    """Scans its memory twice in eight intervals, each of which has one tick half-way; waits for each checkpoint."""

    name, flags = "memwrite", ()
    sources = [EXAMPLES / "memwrite" / "memwrite.c"]
    iterations = 1  # of an interval, as a trace has them: the program never calls mainstay_due

    def __init__(self, o):
        self.seconds = MEMWRITE_SECONDS / o.speed / o.shorter
        self.megabytes = max(4, MEMWRITE_MB // o.part // 4 * 4)
        self.rate = BANDWIDTH * (self.megabytes / MEMWRITE_MB) * o.speed

    def case(self, processes):
        return f"memwrite, {processes} x {self.megabytes} MB"

    def words(self, space):
        return [space, "--mb", self.megabytes, "--seconds", self.seconds]

    def bandwidth(self, recorded):
        """In bytes a second, of all processes together."""
        return self.rate

    def ran(self, output):
        in_all = [float(seconds) for seconds in IN_ALL.findall(output)]
        assert len(in_all) == CHECKPOINTS[self.name], output
        return Ran(in_all[-1] - in_all[0], in_all[-1] - in_all[LEARN], **blocks(output))


class Adi:
    """Checkpoints just before the field is written again: it can be saved early during the sweeps of a step."""

    name, flags = "adi", ("-O3", "-lm")
    sources = sorted((EXAMPLES / "adi").glob("*.c"))

    def __init__(self, o):
        self.side, self.iterations, self.share = o.side, o.every, o.share

    def case(self, processes):
        return f"adi, {processes} processes, {self.side}³"

    def words(self, space):
        sides = [word for axis in ("--nx", "--ny", "--nz") for word in (axis, self.side)]
        # One step more: its first half contains the last checkpoint.
        steps = CHECKPOINTS[self.name] * self.iterations + 1
        return ["--space", space, "--late", *sides, "--steps", steps, "--every", self.iterations, "--progress", steps]

    def bandwidth(self, recorded):
        """Saving the field takes the part `share` of an interval."""
        return 8 * 5 * self.side**3 / (self.share * recorded.interval)

    def ran(self, output):
        begun, held, took = zip(
            *((float(t1), 1e-3 * float(t2), 1e-3 * float(t3)) for t1, t2, t3 in DURABLE.findall(output))
        )
        assert len(took) == CHECKPOINTS[self.name], output
        between = begun[-1] - begun[LEARN] - sum(held[LEARN:-1])
        # An interval contains also the time after t2, for which the program did not wait.
        interval = (begun[-1] - begun[0]) / (len(begun) - 1)
        return Ran(sum(took[1:]), sum(took[1 + LEARN :]), **blocks(output), interval=interval, between=between)


PROGRAMS = (Memwrite, Adi)
