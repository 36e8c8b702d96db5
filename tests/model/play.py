"""Runs a program: starts its jobs and tools, and passes their results to a judge."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from mpi import BUILT, MPICH, OPENMPI, ROOT, SHARED_MEMORY
from programs import build_c

from .program import WORLDS, ranks_of, words_of

MAINSTAY = BUILT / "mainstay"
PLAY_PYTHON = ROOT / "tests" / "python" / "play.py"
TOOL_LIMIT_S = 60
LOOK_S = 0.003
# A job without any event for this time hangs. Its ranks write a few KiB, and every call writes a line.
QUIET_S = float(os.environ.get("MAINSTAY_MODEL_QUIET_SECONDS", 60))
MPI_BY_NAME = {"openmpi": OPENMPI, "mpich": MPICH}
PANIC = re.compile(r"panicked|Traceback|[Ss]egmentation fault|signal (?:11|7|6|4)\b|ERROR: AddressSanitizer")


@dataclass
class Ended:
    """The result of a `mainstay` command."""

    words: list
    status: int
    out: str
    err: str


@dataclass
class Played:
    """The results of a job: for each step and rank, whether it began, and how it ended."""

    status: int = 0
    hangs: bool = False
    output: str = ""
    results: list = field(default_factory=list)  # by step: {rank: (status, text), or None: begun and not ended}
    marks: dict = field(default_factory=dict)  # by rank: "end", "left", "bereft", or "" of one that died
    tools: dict = field(default_factory=dict)  # by step: list of Ended


def builds(world):
    """The words that start a rank. Builds the program if necessary."""
    language, mpi = WORLDS[world]
    mpi = MPI_BY_NAME.get(mpi, OPENMPI)
    if language == "python":
        return [mpi.command("python"), PLAY_PYTHON]
    return [build_c(["play.c", "content.c", "forked.c"], "play", mpi=mpi)]


class Stage:
    """A folder with one space and the directories of its pools. A context manager: nothing of it is left."""

    def __init__(self, program, commands):
        self.program, self.command = program, commands[program["world"]]
        self.mpi = MPI_BY_NAME.get(WORLDS[program["world"]][1])
        self.jobs = 0

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mainstay-model-"))
        pools = self.in_memory = tempfile.mkdtemp(dir=SHARED_MEMORY, prefix="mainstay-model-")
        self.space, self.out = self.folder / "space", self.folder / "out"
        self.pools = [Path(pools) / f"node{node}" for node in range(2)]
        for path in self.pools:
            path.mkdir()
        return self

    def __exit__(self, *_):
        remove(self.folder)
        remove(self.in_memory)

    def said(self, word):
        """A word of a program, with the paths of this stage."""
        word = str(word)
        for name, path in {"SPACE": self.space, "OUT": self.out, "POOL1": self.pools[1], "POOL": self.pools[0]}.items():
            word = re.sub(rf"\b{name}\b", str(path), word)
        return word.replace("OUTPUT", str(self.folder / "output"))

    def tool(self, words):
        command = [MAINSTAY, *map(self.said, words)]
        environment = {**clean(os.environ), "MAINSTAY_POOL_DIRECTORY": str(self.pools[0])}
        try:
            ended = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, timeout=TOOL_LIMIT_S)
        except subprocess.TimeoutExpired:
            return Ended(words, -99, "", f"still at work after {TOOL_LIMIT_S} s")
        return Ended(
            words, ended.returncode, ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace")
        )

    def damage(self, flips, seed):
        """Changes bytes of the space's files, within the parts with data and roots."""
        random, files = Random(seed), sorted(self.space.glob("layout-*"))
        for _ in range(flips if files else 0):
            path = random.choice(files)
            # Only written blocks: a change elsewhere is no damage.
            at = random.choice(written(path) or [0]) + random.randrange(4096)
            with open(path, "r+b") as file:
                file.seek(at)
                byte = file.read(1) or b"\0"
                file.seek(at)
                file.write(bytes([byte[0] ^ 1 << random.randrange(8)]))

    def play(self, job):
        """Runs a job to its end, and kills it if it hangs."""
        self.jobs += 1
        plan, log = self.folder / f"plan{self.jobs}", self.folder / f"log{self.jobs}"
        self.write_plans(job, plan)
        played = Played()
        with open(self.folder / f"output{self.jobs}", "w+b") as output, self.started(job, plan, log, output) as process:
            played.hangs = not self.follow(process, job, log, played)
            output.seek(0)
            played.output = output.read().decode(errors="replace")
        played.status = process.returncode
        read_logs(job, log, played)
        return played

    def write_plans(self, job, plan):
        settings = job["settings"]
        hints = ";".join(f"mainstay_{key}={value}" for key, value in settings.items() if not key.isupper()) or "-"
        for rank in range(job["ranks"]):
            lines = [f"- env MAINSTAY_POOL_DIRECTORY {self.pools[job['nodes'][rank]]}",
                     f"- env MAINSTAY_NODE {job['nodes'][rank]}"]  # fmt: skip
            lines += [f"- env {key} {value}" for key, value in settings.items() if key.isupper()]
            for index, step in enumerate(job["steps"]):
                if rank in ranks_of(step, job):
                    words = [self.space, hints] if step["call"] == "open" else words_of(step, rank)
                    if step["call"] == "pause":
                        words = [self.go(index)]
                    lines.append(" ".join([str(index), step["call"], *(self.said(word) for word in words)]))
            Path(f"{plan}.{rank}").write_text("\n".join(lines) + "\n")

    def go(self, index):
        """The file that lets the ranks go on after a pause."""
        return self.folder / f"go{self.jobs}.{index}"

    @contextlib.contextmanager
    def started(self, job, plan, log, output):
        ranks, words = job["ranks"], [*self.command, plan, log]
        environment = clean(os.environ) | {"OMPI_MCA_btl_sm_backing_directory": str(self.folder)}
        if self.mpi is None:
            words[1:1] = ["--fork", ranks, "survive" if job.get("survive") else "die"]
        else:
            words = self.mpi.mpiexec(ranks, words)
            environment = clean(self.mpi.environment(self.folder)) | environment | dict(self.mpi.variables)
            environment["TMPDIR"] = str(self.folder)
        if self.mpi:
            self.mpi.found()  # what is not this job's
        process = subprocess.Popen(list(map(str, words)), cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its children, whatever they have come to
            process.wait(TOOL_LIMIT_S)
            end_ranks(log, job["ranks"])
            if self.mpi:
                self.mpi.clear()

    def follow(self, process, job, log, played):
        """Follows the job to its end, and runs the tools of its pauses. Returns whether it ended by itself."""
        pauses = [(index, step) for index, step in enumerate(job["steps"]) if step["call"] == "pause"]
        size, since = -1, time.monotonic()
        while process.poll() is None:
            now = sum(size_of(f"{log}.{rank}") for rank in range(job["ranks"]))
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > QUIET_S:
                return False
            if pauses and all(f"> {pauses[0][0]}\n" in read_text(f"{log}.{rank}") for rank in range(job["ranks"])):
                index, step = pauses.pop(0)
                played.tools[index] = [self.tool(words) for words in step["tools"]]
                self.go(index).touch()
                since = time.monotonic()
            time.sleep(LOOK_S)
        return True


def remove(folder):
    """Daemons of an MPI may still be removing their own files."""
    deadline = time.monotonic() + TOOL_LIMIT_S
    while os.path.exists(folder):
        shutil.rmtree(folder, ignore_errors=True)
        assert time.monotonic() < deadline, f"{folder} cannot be removed"
        time.sleep(LOOK_S)


def clean(environment):
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("MAINSTAY_") or name == "MAINSTAY_TEST_SESSION"
    }


def written(path):
    """The offsets of the blocks of a file that are not zero."""
    data = path.read_bytes()
    return [at for at in range(0, len(data), 4096) if any(data[at : at + 4096])]


def size_of(path):
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def read_text(path):
    try:
        return Path(path).read_text(errors="replace")
    except FileNotFoundError:
        return ""


def end_ranks(log, ranks):
    """Waits for the ranks of a job with an ended launcher. Until they are gone they may still write."""
    deadline = time.monotonic() + TOOL_LIMIT_S
    for rank in range(ranks):
        if not (match := re.match(r"pid (\d+)\n", read_text(f"{log}.{rank}"))):
            continue
        pid = int(match[1])
        while is_player(pid, log):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, f"rank {rank} outlives its kill"
            time.sleep(LOOK_S)


def is_player(pid, log):
    """Whether the process is a living rank of that job: another process may have its id by now."""
    try:
        return str(log).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def read_logs(job, log, played):
    played.results = [{} for _ in job["steps"]]
    for rank in range(job["ranks"]):
        played.marks[rank] = ""
        for line in read_text(f"{log}.{rank}").splitlines():
            if match := re.match(r"> (\d+)$", line):
                played.results[int(match[1])][rank] = None
            elif match := re.match(r"= (\d+) (\S+) ?(.*)$", line):
                played.results[int(match[1])][rank] = (match[2], match[3])
            elif line in ("end", "left", "bereft"):
                played.marks[rank] = line
            elif line.startswith("WRONG"):
                played.output += line + "\n"


def play(program, commands, judge):
    """Runs all of it. Returns the error, or None."""
    with Stage(program, commands) as stage:
        return judge(program, stage)
