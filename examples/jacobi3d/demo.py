"""Shows that a running simulation survives the loss of a whole node, in C and in Python, and the loss of a single rank.

    python demo.py

Builds jacobi3d and runs it undisturbed. Then each version runs on two simulated nodes of this machine. It saves only to
their memory, and each node keeps copies of the other's shards. Halfway, one node is lost: its ranks are killed and its
memory is removed. The job is started again, and goes on from the copies on the other node; the fields are compared bit
for bit. Then the version in C loses one rank, and goes on without a restart: a spare takes its place. Writes
demo-out/jacobi3d.png. The package mainstay must be installed beside this Python: `make demo` does all.
"""

import re
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy

import dem
import picture
from build import HERE, build
from job import Job
from mpi import BUILT, OPENMPI, ROOT, SHARED_MEMORY

RANKS = 4
LOST = {2: "node 1", 3: "node 1"}  # rank: its node
# Ranks 0 and 1 are on node 0, the others on node 1; each node has memory of its own, as other machines would.
ON_ITS_NODE = """
MAINSTAY_NODE="node $((${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} / 2))" && export MAINSTAY_NODE
MAINSTAY_POOL_DIRECTORY="$NODES/$MAINSTAY_NODE" && export MAINSTAY_POOL_DIRECTORY
mkdir -p "$MAINSTAY_POOL_DIRECTORY" && exec "$@"
"""
PROGRESS = 10  # steps from line to line, and from row to row
NAMES = " and ".join(map(str, LOST))
SPARES, VICTIM = 1, 1
LIMIT_S = 120  # of one run, on a machine that has much else to do
OUT = ROOT / "demo-out" / "jacobi3d.png"


@dataclass(frozen=True)
class Version:
    """One of the two programs, and its run."""

    language: str
    words: tuple  # that start it, instead of the one that was compiled
    tells_means: bool  # appends to a table
    cells: tuple
    steps: int
    every: int
    kill_at: int

    def __str__(self):
        return self.language

    def folder(self, scratch):
        return scratch / self.language

    def nodes(self, scratch):
        """The folder with the memory of each node."""
        return SHARED_MEMORY / f"{scratch.name}-{self.language}"


C = Version("C", (), False, cells=(176, 164, 88), steps=1200, every=100, kill_at=650)
PYTHON = Version(
    "Python", (OPENMPI.command("python"), HERE / "jacobi3d.py"), True,
    cells=(112, 104, 56), steps=450, every=75, kill_at=240,
)  # fmt: skip

CHECKPOINT = re.compile(r"checkpoint (\d+) of step (\d+): t1 ([\d.]+) s, t2-t1 ([\d.]+) ms, t3-t1 ([\d.]+) ms")
RESTORED = re.compile(r"restored revision (\d+), continuing at step (\d+)")
STEP = re.compile(r"step (\d+)$")
OPENED = re.compile(r"opened ")
YEARS = re.compile(r"done: \d+ steps, (\d+) years")


FAILED = re.compile(r"mainstay: rank \d+ failed; the job went on from revision \d+ after [\d.]+ s \(.*\)")


@dataclass(frozen=True)
class GoingOn(type(OPENMPI)):
    """Jobs that go on when a rank fails."""

    def mpiexec(self, ranks, command):
        mainstay = [str(BUILT / "mainstay"), "run", "--in-job", "--restarts", "0"]
        return [*mainstay, "--spares", str(SPARES), "--", *super().mpiexec(ranks, command)]


class Wrong(Exception):
    """A result is not as expected."""


class Timeline:
    """The events of a run, in milliseconds from the loss of the node."""

    def __init__(self):
        self.loss = None
        self.events = []

    def add(self, what, at=None):
        self.events.append((time.time() if at is None else at, what))

    def lose(self, what):
        self.loss = time.time()
        self.add(what, self.loss)

    def read(self, line):
        """Adds the content of a line of the job. Returns the step, if the line is about a checkpoint."""
        if match := CHECKPOINT.match(line):
            revision, step, t1, perceived, durable = match.groups()
            self.add(
                f"revision {revision} of step {step:>4}: the program goes on after {perceived:>5} ms, "
                f"all is in its node's memory after {durable:>5} ms",
                float(t1),
            )
            return int(step)
        if OPENED.match(line):
            self.add("the space is open")
        return None

    def show(self):
        print("      ms from the loss")
        for at, what in sorted(self.events):
            print(f"  {1000 * (at - self.loss):+8,.0f}  {what}")


def field(version, path):
    return numpy.fromfile(path).reshape(version.cells)


def command(version, scratch, *more):
    nx, ny, nz = version.cells
    return [
        *(version.words or [scratch / "jacobi3d"]), "--dem", scratch / "dem", "--nx", nx, "--ny", ny, "--nz", nz,
        "--steps", version.steps, *more,
    ]  # fmt: skip


def saving(version, scratch, *more):
    folder = version.folder(scratch)
    means = ["--means", folder / "means"] if version.tells_means else []
    words = command(
        version, scratch, "--space", folder / "space", "--every", version.every, "--timeline", *means, *more
    )
    # Saves to memory, with the default copies; the space on disk gets nothing before the end.
    settings = ["MAINSTAY_MEMORY=auto", "MAINSTAY_PFS_EVERY=0", f"NODES={version.nodes(scratch)}"]
    return ["env", *settings, "sh", "-c", ON_ITS_NODE, "sh", *words]


def undisturbed(version, scratch):
    """The result of the version in C on this grid, and the simulated years."""
    out = version.folder(scratch) / "undisturbed"
    words = command(replace(version, words=()), scratch, "--no-checkpoint", "--out", out)
    with Job(RANKS, words, scratch, LIMIT_S) as job:
        for _ in job.lines():
            pass
        if job.wait() != 0:
            raise Wrong("the undisturbed run failed:\n" + job.tail())
        return int(YEARS.search(job.tail())[1])


def killed(version, scratch, timeline):
    """Runs until a node is lost. Returns the step that was reached, and the last step saved on rank 0."""
    reached = saved = 0
    done = False
    with Job(RANKS, saving(version, scratch), scratch, LIMIT_S) as job:
        for line in job.lines():
            saved = timeline.read(line) or saved
            if match := STEP.match(line):
                reached = int(match[1])
                if reached >= version.kill_at and not done:
                    for rank in LOST:
                        # mpiexec may have seen the first die and ended the others.
                        with suppress(ProcessLookupError):
                            job.kill_rank(rank)
                    timeline.lose(f"node 1 is lost after step {reached}: its ranks {NAMES} are killed (SIGKILL)")
                    done = True
            if "signal 9" in line:
                print("  mpiexec says:", line.strip())
        status = job.wait()
        if not done:
            raise Wrong("the job ended before a node could be lost:\n" + job.tail())
        if status == 0:
            raise Wrong("the job went on without the node that was lost")
        timeline.add(f"the job is dead (exit status {status})")
    if list((version.folder(scratch) / "space").glob("layout-*")):
        raise Wrong("the job has saved to its space on disk, not to memory alone")
    for node in set(LOST.values()):
        shutil.rmtree(version.nodes(scratch) / node)
    timeline.add("the memory of node 1 is gone")
    return reached, saved


def again(version, scratch, timeline):
    """Runs to the end. Returns the revision and the step from which it continued."""
    restored = None
    folder = version.folder(scratch)
    words = saving(version, scratch, "--first", folder / "restored", "--out", folder / "again")
    timeline.add("the job is started again, with an empty node in its place")
    with Job(RANKS, words, scratch, LIMIT_S) as job:
        for line in job.lines():
            timeline.read(line)
            if match := RESTORED.match(line):
                restored = int(match[1]), int(match[2])
                timeline.add(
                    f"revision {restored[0]} is restored from the memory of node 0: on from step {restored[1]}"
                )
        if job.wait() != 0:
            raise Wrong("the job that was started again failed:\n" + job.tail())
        timeline.add(f"step {version.steps}: the end")
    if restored is None:
        raise Wrong("the job that was started again restored nothing")
    return restored


def goes_on(version, scratch, timeline):
    """Loses a rank during the run. Returns the step that was reached, and the step from which all ranks went on."""
    reached = at_death = back_to = 0
    done = False
    folder = version.folder(scratch)
    shutil.rmtree(folder / "space", ignore_errors=True)
    words = saving(version, scratch, "--out", folder / "again")
    mpi = GoingOn(**{**vars(OPENMPI), "depth": OPENMPI.depth + 1})
    with Job(RANKS, words, scratch, LIMIT_S, mpi) as job:
        for line in job.lines():
            timeline.read(line)
            if match := STEP.match(line):
                reached = max(reached, int(match[1]))
                if reached >= version.kill_at and not done:
                    job.kill_rank(VICTIM)
                    timeline.lose(f"rank {VICTIM} is killed after step {reached} (SIGKILL)")
                    done, at_death = True, reached
            if match := FAILED.search(line):
                timeline.add(match[0].removeprefix("mainstay: "))
            if match := RESTORED.match(line):
                back_to = int(match[2])
                timeline.add(
                    f"revision {match[1]} is restored: on from step {back_to}, by the same processes and the spare"
                )
        if job.wait() != 0 or not done or not back_to:
            raise Wrong("the job did not go on without the rank that was killed:\n" + job.tail())
        timeline.add(f"step {version.steps}: the end")
    return at_death, back_to


def compare(version, scratch):
    """Compares bit for bit. The field must still have been changing, or a wrong restore could pass."""
    folder = version.folder(scratch)
    expected, got, first = (field(version, folder / name) for name in ("undisturbed", "again", "restored"))
    differ = numpy.count_nonzero(expected.view("u8") != got.view("u8"))
    if differ:
        raise Wrong(f"{differ} of {expected.size} cells differ from the undisturbed run")
    moved = numpy.count_nonzero(first.view("u8") != got.view("u8")) / first.size
    most = float(numpy.abs(got - first).max())
    if moved < 0.25 or most < 0.1:
        raise Wrong(f"the field hardly moved after the restore ({moved:.0%} of the cells, {most:.3f} °C)")
    return expected, moved, most


def rows(version, scratch):
    """The steps that have rows in the table of means."""
    _, *lines = (version.folder(scratch) / "means").read_text().splitlines()
    return [int(line.partition(",")[0]) for line in lines]


def check_rows(version, scratch):
    if (got := rows(version, scratch)) != list(range(PROGRESS, version.steps + 1, PROGRESS)):
        raise Wrong(f"the table of means has rows of the steps {got}")
    return len(got)


def tell(version, scratch):
    """Makes one version lose a node, and restarts it. Returns the final field and the simulated years."""
    print(f"\nIn {version}: {' x '.join(map(str, version.cells))} cells, {version.steps} steps on {RANKS} ranks")
    version.folder(scratch).mkdir()
    print("  running undisturbed" if version is C else "  running undisturbed in C, to compare with", flush=True)
    years = undisturbed(version, scratch)

    print(f"  running on two nodes, with a checkpoint every {version.every} steps, to lose one", flush=True)
    timeline = Timeline()
    timeline.add(f"the job is started on {RANKS} ranks, two on each node")
    reached, saved = killed(version, scratch, timeline)
    written = len(rows(version, scratch)) if version.tells_means else 0
    print("  starting the job again", flush=True)
    revision, step = again(version, scratch, timeline)
    # The last revision may have been incomplete on some rank, but the one before was complete.
    if not max(version.every, saved - version.every) <= step <= reached + version.every or step % version.every:
        raise Wrong(f"revision {revision} is of step {step}, but {saved} was saved and {reached} reached")
    expected, moved, most = compare(version, scratch)

    timeline.show()
    print(
        f"  Before the loss {reached} steps were done, after the restore {version.steps - step}: from step {step} on."
    )
    print(f"  In these, {moved:.0%} of the cells still changed, by up to {most:.2f} °C: far from the end state.")
    print(f"  All {expected.size} cells are bit for bit those of the undisturbed run.")
    if version.tells_means:
        print(f"  Its table of means had {written} rows at the loss, was cut back to {step // PROGRESS}, and has each of "
              f"{check_rows(version, scratch)} once.")  # fmt: skip
    return expected, years


def tell_rank(version, scratch):
    """Makes one version lose a rank, and go on. Runs after `tell`: the final field must equal its undisturbed field."""
    print(
        f"\nIn {version} again, on {RANKS} ranks and {SPARES} spare, to lose one rank without being started again",
        flush=True,
    )
    timeline = Timeline()
    timeline.add(f"the job is started on {RANKS} ranks, with {SPARES} more that sleeps")
    reached, back_to = goes_on(version, scratch, timeline)
    if reached - back_to > 2 * version.every:
        raise Wrong(f"it went back from step {reached} to {back_to}")
    expected, got = (field(version, version.folder(scratch) / name) for name in ("undisturbed", "again"))
    if differ := numpy.count_nonzero(expected.view("u8") != got.view("u8")):
        raise Wrong(f"{differ} of {expected.size} cells differ from the undisturbed run")
    timeline.show()
    print(f"  All {expected.size} cells are bit for bit those of the undisturbed run.")


def demo(scratch):
    began = time.monotonic()
    print("Building examples/jacobi3d", flush=True)
    build(scratch / "jacobi3d")
    dem.write(scratch / "dem")
    try:
        ends = [tell(version, scratch) for version in (C, PYTHON)]
        tell_rank(C, scratch)
    finally:
        for version in (C, PYTHON):
            shutil.rmtree(version.nodes(scratch), ignore_errors=True)

    OUT.parent.mkdir(exist_ok=True)
    picture.draw(*ends[0], OUT)
    print(f"\nA cut through the ground: {OUT.relative_to(ROOT)}   ({time.monotonic() - began:.0f} s in all)")


def main():
    # An end by SIGTERM cleans up like one by Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="mainstay-demo-") as scratch:
            demo(Path(scratch))
    except (Wrong, TimeoutError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: interrupted")


if __name__ == "__main__":
    main()
