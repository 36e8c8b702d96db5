"""Jobs of the program `tables`, which are saved, killed and restored, by hand and in slots."""

import json
import mmap
import os
import signal
import subprocess
import time
from pathlib import Path

from mpi import OPENMPI

from .jobs import LIMIT_S, Job, native_words, slots_words
from .programs import MAINSTAY

BLOCK = 1 << 22


class Tables:
    """A job of `tables` on `ranks` ranks. Each has `mib` MiB, and changes `part` of it in a step."""

    def __init__(self, folder, scratch, side, ranks, mib, part, steps, count=None, **settings):
        self.scratch, self.space = Path(scratch), Path(scratch) / "space"
        words = [Path(folder) / {"slots": "slots", "by_hand": OPENMPI.name}[side] / "tables", mib, part, steps, scratch]
        count = ranks if count is None else count
        if side == "by_hand":
            self.words = native_words(OPENMPI, ranks, words)
            settings["BENCH_SPACE"] = self.space
        else:
            self.words = slots_words(self.space, ranks, words, OPENMPI if count else None, count)
        self.settings, self.steps = {"MAINSTAY_KEEP": 2 + steps, **settings}, steps

    def start(self):
        return Job(*self.words, self.scratch, **self.settings)

    def let_go_on(self, step):
        (self.scratch / str(step)).touch()

    def saved(self):
        """Runs the job to its end. Returns the figures of the checkpoint after each step."""
        pauses = []
        with self.start() as job:
            for step in range(self.steps):
                job.until("hold")
                command([MAINSTAY, "checkpoint", self.space])
                self.let_go_on(step)
                pauses.append(job.until("went_on")["seconds"])
            job.rest()
        # The space notes at a later revision how long one took to become durable.
        return [{**noted(self.space, 1 + step), "pause": pause} for step, pause in enumerate(pauses)]

    def saved_and_killed(self):
        """Saves the job while it holds, and kills it."""
        with self.start() as job:
            job.until("hold")
            command([MAINSTAY, "checkpoint", self.space])
            for pid in job.hosts() or [job.process.pid]:
                os.kill(pid, signal.SIGKILL)
            job.process.wait(LIMIT_S)

    def back(self):
        """Starts the job again, and lets it end. Returns the seconds until the program goes on."""
        for step in range(self.steps):
            self.let_go_on(step)
        with self.start() as job:
            job.until("went_on")
            seconds = time.monotonic() - job.start
            job.rest()
        return seconds


def command(words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise SystemExit(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def noted(space, revision):
    """The notes of the space about a revision."""
    found = json.loads(command([MAINSTAY, "show", "--json", space, "--revision", revision]))["revision"]
    written = sum(shard["phases"]["written_bytes"] for shard in found["shard_list"])
    return {"perceived": 1e-9 * found["perceived_ns"], "durable": 1e-9 * found["durable_ns"], "bytes": written}


def verify_s(space):
    start = time.monotonic()
    command([MAINSTAY, "verify", space])
    return time.monotonic() - start


def copy_s(space, size, is_touched):
    """Copies bytes of the space from the page cache into memory. `is_touched`: the memory was touched before."""
    [file] = space.glob("layout-*")
    with (
        open(file, "rb", buffering=0) as source,
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as made,
    ):
        while source.read(BLOCK):
            pass  # brings its pages into the cache
        source.seek(0)
        into, at = memoryview(made), 0
        for page in range(0, size if is_touched else 0, mmap.PAGESIZE):
            into[page] = 1
        start = time.monotonic()
        while at < size and (got := source.readinto(into[at : at + BLOCK])):
            at += got
        seconds = time.monotonic() - start
        into.release()
        return seconds
