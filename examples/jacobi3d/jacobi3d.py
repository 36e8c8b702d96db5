"""The temperature in the ground below a mountain range, saved by Mainstay: jacobi3d.c in Python.

All calls that save are in this file: open, protect, restore, due, checkpoint, recover. The grid is in grid.py, the
physics in ground.py. The field equals that of the C program bit for bit.
"""

import argparse
import math
import sys
import traceback
from contextlib import contextmanager, nullcontext, suppress

import mainstay
import numpy
from grid import INSIDE, Grid
from ground import Elevation, Ground
from mpi4py import MPI
from stop import stop


def number(least, most):
    def read(text):
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"it does not take this value: {text}")
        return int(text)

    return read


class Options(argparse.ArgumentParser):
    """The command line; rank 0 prints the errors for all."""

    def __init__(self, speaks):
        super().__init__("jacobi3d.py", description=__doc__.partition(",")[0] + ".", allow_abbrev=False)
        self.speaks = speaks
        some, any_count = number(1, 2**64 - 1), number(0, 2**64 - 1)
        cells = number(1, 2**31 - 3)  # MPI counts them, and two ghosts, in an int
        add = self.add_argument
        add("--dem", metavar="FILE", required=True, help="elevation model, made by dem.py")
        for side, default, way in (("nx", 128, "east"), ("ny", 128, "north"), ("nz", 96, "up")):
            add(f"--{side}", metavar="N", type=cells, default=default, help=f"cells of the grid {way} ({default})")
        add("--steps", metavar="N", type=any_count, default=100, help="steps, of a sweep each (100)")
        add("--out", metavar="FILE", help="write the final field: doubles [nx][ny][nz]")
        add("--first", metavar="FILE", help="write the field that the run begins with, restored or not")
        add("--progress", metavar="N", type=some, default=10, help="print a line every N steps (10)")
        add("--means", metavar="FILE", help="append the mean temperature of the rock to this table at every such line")
        add("--space", metavar="DIR", help="save the state to this space, and restore it if there is any")
        add(
            "--from",
            metavar="DIR",
            dest="begin_from",
            help="where that holds nothing, begin from the newest revision of this space, whatever number of ranks saved it",
        )
        add("--every", metavar="N", type=some, default=20, help="checkpoint every N steps (20)")
        add("--keep", metavar="N", type=number(1, 2**32 - 1), help="complete revisions to keep")
        add(
            "--stage",
            choices=["pool", "node", "rank", "direct"],
            help="pool: go on before the data is on disk; node, rank: the same for small pieces; direct: no buffer",
        )
        add("--pool-bytes", metavar="N", type=some, help="size of the pool of the node, which its ranks share")
        add("--timeline", action="store_true", help="print when the space is open, and the phases of every checkpoint")
        add("--no-checkpoint", action="store_true", help="leave --space alone: nothing is restored, nothing saved")

    def read(self):
        options = self.parse_args()
        if options.no_checkpoint:
            options.space = None
        elif not options.space:
            self.error("give --space DIR for the checkpoints, or --no-checkpoint")
        return options

    def print_help(self, file=None):
        if self.speaks:
            super().print_help(file)

    def error(self, message):
        self.exit(2, f"jacobi3d: {message}\nTry jacobi3d.py --help.\n" if self.speaks else None)


class Means:
    """The mean temperature of the rock as a table. Rank 0 appends to it, and Mainstay truncates it at a restore."""

    def __init__(self, path, grid, rock):
        self._path, self._comm, self._rock = path, grid.comm, rock
        self._cells = sum(grid.comm.allgather(int(rock.sum())))
        self._file = None

    def begin(self, goes_on):
        """Begins after a restore, which has truncated the file to the rows of that revision."""
        if self._comm.rank == 0:
            self._file = open(self._path, "a" if goes_on else "w")
            if self._file.tell() == 0:
                self._file.write("step,mean_c\n")

    def add(self, step, field):
        sums = self._comm.gather(float(numpy.sum(field[INSIDE], where=self._rock)))
        if self._file:
            self._file.write(f"{step},{math.fsum(sums) / self._cells!r}\n")
            self._file.flush()  # a checkpoint keeps what has been written

    def close(self):
        if self._file:
            self._file.close()


class Saved:
    """The last checkpoint, until rank 0 has printed its cost."""

    def __init__(self, session, speaks, phases):
        self._session, self._speaks, self._phases, self._last = session, speaks, phases, None

    def begun(self, revision, step):
        self.print_cost()  # if this one had to wait for the last
        self._last = revision, step

    def print_cost(self):
        """Prints the cost once the checkpoint is durable and the cost is known."""
        r = self._session.last_record() if self._last and self._speaks else None
        if not r or r.revision != self._last[0] or not r.durable_ns:
            return
        print(f"checkpoint {r.revision} of step {self._last[1]}: t1 {r.t1_unix_ns / 1e9:.3f} s, "
              f"t2-t1 {r.perceived_ns / 1e6:.1f} ms, t3-t1 {r.durable_ns / 1e6:.1f} ms")  # fmt: skip
        if self._phases:
            print(f"  communication {r.communication_ns / 1e6:.1f}, buffer wait {r.buffer_wait_ns / 1e6:.1f}, "
                  f"copy {r.copy_ns / 1e6:.1f}, phase 3 {r.resume_ns / 1e6:.1f}, other {r.other_ns / 1e6:.1f} ms; "
                  f"{r.bytes} bytes, {r.chunks} chunks, {r.writes} writes")  # fmt: skip
        self._last = None


class Failures:
    """Counts failures. A failed save is no reason to stop: the program's own state is unharmed. Failed ranks are a
    reason to go back."""

    def __init__(self, rank):
        self._rank, self.count = rank, 0

    @contextmanager
    def survived(self, doing):
        try:
            yield
        except mainstay.GroupFailed:
            raise
        except mainstay.Error as error:
            self.count += 1
            print(f"jacobi3d: rank {self._rank}: {doing}: {error}; going on", file=sys.stderr, flush=True)


# ANCHOR: from
def begin_from(path, grid, step, field):
    """Begins from a revision in another space, saved by any number of ranks: each rank reads its block."""
    first = mainstay.read(path) if grid.comm.rank == 0 else None
    revision = grid.comm.bcast(first.revision if first else None)
    with first or mainstay.read(path, revision) as reader:
        reader.readinto(0, "step", 0, step)
        inside = numpy.empty(grid.size)
        reader.read_box("temperature", grid.start, grid.size, inside)
        field[INSIDE] = inside
    if grid.comm.rank == 0:
        print(f"begun from revision {revision} of {path} at step {step}")


# ANCHOR_END: from


class Model:
    """The state of the computation on the present ranks."""

    def __init__(self, workers, o, surface):
        self.grid = grid = Grid(workers, (o.nx, o.ny, o.nz))
        self.ground = Ground(grid, surface)
        self.field, self.other = self.ground.start, self.ground.start.copy()  # with its air, which no sweep writes
        self.step, self.speaks = numpy.zeros((), "u8"), grid.comm.rank == 0
        self.means = Means(o.means, grid, self.ground.rock) if o.means else None
        if self.speaks:
            print(f"grid {o.nx} x {o.ny} x {o.nz} on {' x '.join(map(str, grid.blocks))} ranks, "
                  f"{self.field.nbytes / 1e6:.1f} MB a rank, {self.ground.sweep_years:.1f} years a step")  # fmt: skip

    def sweep(self):
        self.ground.sweep(self.field, self.other)
        self.field, self.other = self.other, self.field
        self.step += 1


def opened(o):
    if not o.space:
        return nullcontext()
    return mainstay.open(
        o.space, MPI.COMM_WORLD, keep=o.keep, every_steps=o.every, stage=o.stage, pool_bytes=o.pool_bytes
    )


def begin(model, session, o):
    """Brings the model to the newest revision."""
    grid, restored = model.grid, None
    if session:
        session.adopt(grid.comm)
        for name in ("step", "temperature"):  # of a model on the ranks before
            with suppress(mainstay.RegionMissing):
                session.unprotect(name)
        # ANCHOR: box
        session.protect("step", model.step)
        # The array changes from step to step. It is saved without ghosts: any number of ranks can divide it.
        session.protect("temperature", lambda: model.field[INSIDE], global_shape=grid.cells, offset=grid.start)
        # ANCHOR_END: box
        restored = session.restore()
        if restored and restored.skipped and model.speaks:
            print("newer revisions are damaged:", "\n".join(restored.skipped))
        if not restored and o.begin_from:
            begin_from(o.begin_from, grid, model.step, model.field)
        if restored and model.speaks:
            print(f"restored revision {restored.revision}, continuing at step {model.step}")
    if o.first:
        grid.write(model.field, o.first)
    if model.means:
        model.means.begin(goes_on=restored is not None)


def go_on(model, session, o, failures):
    """Computes and saves up to the last step."""
    saved = Saved(session, model.speaks, o.timeline)
    while model.step < o.steps:
        model.sweep()
        if model.step % o.progress == 0:
            if model.means:
                model.means.add(model.step, model.field)
            if model.speaks:
                print(f"step {model.step}")
        if session and session.due(model.step):
            with failures.survived("checkpoint"):
                saved.begun(session.checkpoint(notes={"step": model.step}), int(model.step))
        saved.print_cost()
    if session:
        with failures.survived("wait"):
            session.wait()
    saved.print_cost()


def run():
    speaks = MPI.COMM_WORLD.rank == 0
    for stream in (sys.stdout, sys.stderr):
        # Writes each line at once and in one piece, so that lines of different ranks do not mix.
        stream.reconfigure(line_buffering=True, write_through=False)
    o = Options(speaks).read()
    surface = Elevation(MPI.COMM_WORLD, o.dem)
    failures = Failures(MPI.COMM_WORLD.rank)

    with opened(o) as session:
        if session and o.timeline and session.rank == 0:
            print("opened", o.space)
        if session and o.means and session.rank == 0:
            session.protect_output(o.means)  # one rank a file
        # ANCHOR: recover
        while True:
            try:
                # On the ranks that are left, with those that took the places of others, if any.
                model = Model(session.comm if session else MPI.COMM_WORLD, o, surface)
                begin(model, session, o)
                go_on(model, session, o, failures)
                break
            except (mainstay.GroupFailed, MPI.Exception) as failure:
                recover(session, failure)
        # ANCHOR_END: recover
    if model.means:
        model.means.close()
    if o.out:
        model.grid.write(model.field, o.out)
    if model.speaks:
        print(f"done: {model.step} steps, {model.ground.sweep_years * float(model.step):.0f} years")
    return 3 if failures.count else 0


def recover(session, failure):
    """Goes on without the failed ranks, if the job is set up for this."""
    if not session:
        raise failure
    try:
        session.recover()
    except mainstay.InvalidArgument:
        raise failure from None


def main():
    # Ends all ranks: the others would wait for a rank that has ended.
    try:
        return run()
    except (mainstay.Error, OSError) as error:
        stop(error)
    except Exception:
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    sys.exit(main())
