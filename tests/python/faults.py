"""Makes the calls of Mainstay that its arguments list, and prints the result of each: tests/c/faults.c, in Python.

faults.py SPACE COMMAND...           under MPI
faults.py --solo SPACE COMMAND...    one rank, without MPI
"""

import ctypes
import os
import re
import signal
import sys
import time

import mainstay
import numpy as np
from mainstay import objects

CELLS, GROWN = 50001, 200000
STAGES = {"1": "pool", "2": "direct", "3": "node", "4": "rank"}


class Thing:
    """An object. Number 4, which is on rank 1, makes a mistake."""

    fault = here = things = None

    def __init__(self, index):
        self.index, self.sum, self.sized = index, bytearray(8), 0

    def is_wrong(self, fault):
        return self.index == 4 and self.fault == fault

    def buffer(self):
        """The saved data. It is read for the size in the index, for the size of the pack, and for packing."""
        self.sized += 1
        if self.is_wrong("grows") and self.sized > 1 or self.is_wrong("packs") and self.sized > 2:
            return self.sum + b"more"
        if self.is_wrong("unpacks") and self.sized == 1 and not self.sum[0]:
            return bytearray(4)  # where it comes to
        return self.sum

    @objects.handler
    def count(self):
        self.sum[0] += 1
        if self.is_wrong("fails"):
            raise RuntimeError("no such luck")
        if self.is_wrong("nowhere"):
            self.things.send(77, "count")
        if self.is_wrong("reenters"):
            self.here.step()


class Program:
    def __init__(self, space, comm):
        self.space, self.comm = space, comm
        self.rank = comm.rank if comm else 0
        self.session, self.settings = None, {}
        self.field, self.grown, self.step = np.zeros(CELLS), np.zeros(GROWN), np.zeros(2, "u8")
        self.given = self.grown[:100]

    def say(self, call, status, text=""):
        # One write a line: ranks share the terminal.
        sys.stdout.write(f"= {self.rank} {call} {status} {text}".replace("\n", "|") + "\n")
        sys.stdout.flush()

    def said(self, call, work, *given, **named):
        """Makes the call and prints its result. Returns the result, or None."""
        try:
            result = work(*given, **named)
        except mainstay.Error as error:
            assert type(error) is getattr(mainstay, error.kind), type(error)
            # The names of the statuses in C.
            self.say(call, re.sub("(?<!^)(?=[A-Z])", "_", error.kind).upper(), str(error))
            return None
        self.say(call, "OK")
        return result

    def values(self, at):
        x = np.uint64(at * 1000003 + self.rank) * np.uint64(2654435761) + np.arange(CELLS, dtype="u8") * np.uint64(
            40503
        )
        return ((x ^ (x >> np.uint64(15))) % np.uint64(1000003)).astype("f8") / 7

    def opened(self):
        return mainstay.open(self.space, self.comm, **self.settings)

    def do_open(self, _):
        self.session = self.said("open", self.opened)
        if self.session:
            self.session.protect("field", self.field)
            self.session.protect("step", self.step[:1])

    def do_second(self, _):
        if second := self.said("open", self.opened):
            second.close()

    def do_set(self, what):
        key, _, value = what.partition("=")
        if key == "none":
            self.settings = {}
        elif key == "stage":
            self.settings["stage"] = STAGES.get(value, value)
        elif key.endswith("_seconds"):
            self.settings[key] = float(value)
        else:
            self.settings[key] = value if value.isalpha() else int(value)

    def do_fill(self, at):
        self.field[:] = self.values(int(at))
        self.step[0] = int(at)

    def do_holds(self, at):
        right = self.step[0] == int(at) and np.array_equal(self.field, self.values(int(at)))
        self.say("holds", "OK" if right else "WRONG")

    def do_save(self, at):
        self.do_fill(at)
        self.said("checkpoint", self.session.checkpoint)

    def do_wait(self, _):
        self.said("wait", self.session.wait)

    def do_level(self, name):
        self.said("wait", self.session.wait, name)

    def do_poll(self, _):
        def to_the_end():
            for _ in range(30000):
                if self.session.poll():
                    break
                time.sleep(0.001)

        self.said("poll", to_the_end)

    def do_restore(self, _):
        restored = []
        self.said("restore", lambda: restored.append(self.session.restore()))
        for found in restored:
            self.say("restored", found.revision if found else 0, "\n".join(found.skipped) if found else "")

    def do_close(self, _):
        self.said("close", self.session.close)
        self.session = None

    def do_finalize(self, _):
        from mpi4py import MPI

        MPI.Finalize()

    def do_protect(self, name):
        self.said("protect", self.session.protect, name, self.step[1:])

    def do_overlap(self, name):
        self.said("protect", self.session.protect, name, self.step.view("u4")[1:3])

    def do_move(self, name):
        self.said("move", self.session.move, name, self.grown)

    def do_follow(self, name):
        self.said("protect", self.session.protect, name, lambda: self.given.view())

    def do_point(self, where):
        class Broken:
            def view(self):
                raise RuntimeError("no buffer today")

        self.given = {
            "null": np.zeros(100, "O"),
            "field": self.field[:100],
            "error": Broken(),
            "back": self.grown[:100],
        }[where]

    def do_alloc(self, name):
        self.said("protect", self.session.empty, name, 5000, "u1", same_address=True)

    def do_free(self, name):
        self.said("unprotect", self.session.free, name)

    def do_settled(self, name):
        self.said("settled", self.session.settled, name, 0, 1 << 20)

    def do_settled_last(self, name):
        self.said("settled", self.session.settled, name, (1 << 64) - 1, 2)

    def do_unprotect(self, name):
        self.said("unprotect", self.session.unprotect, name)

    def do_change(self, how):
        self.session.unprotect("step")
        if how != "gone":
            changed = {"size": self.step, "type": self.step[:1].view("i8"), "shape": self.step[:1].reshape(1, 1)}
            self.session.protect("step", changed[how])

    def do_grow(self, _):
        self.said("grow", self.session.protect, "grown", self.grown)

    def do_box(self, what):
        """Rows of a global array with this number of rows of four cells each."""
        rows, start, end = map(int, what.split(":"))
        part = self.grown[: 4 * (end - start)].reshape(-1, 4)
        self.said("protect", self.session.protect, "u", part, (rows, 4), (start, 0))

    def do_read(self, number):
        """Reads a revision, as any process can."""
        reader = self.said("open", mainstay.read, self.space, int(number) or None)
        if reader:
            with reader:
                item, step = reader.shards[0].items[1], np.zeros(1, "u8")
                self.said("read", reader.readinto, 0, "step", 0, step)
                right = (item.name, item.dtype, int(step[0])) == ("step", "<u8", reader.revision)
                self.say("read", "OK" if right else "WRONG")

    def do_odd(self, what):
        """Protects memory that cannot be protected."""
        wide, mixed = np.zeros((4, 6)), np.dtype([("number", "f8"), ("object", "O")])
        odd = {
            "dimensions": [self.step[:1].reshape((1,) * 33)],
            "out-of-order": [wide[:, ::-1], wide[::-1], memoryview(bytearray(8))[::-1], wide.T[1:]],
            "fortran": [wide.T, np.asfortranarray(wide)],
            "read-only": [b"bytes", np.broadcast_to(1.0, (3,)), np.float64(1), memoryview(b"bytes")],
            "objects": [
                np.zeros(3, "O"),
                np.zeros(3, mixed),
                (ctypes.py_object * 2)(),
                (ctypes.c_void_p * 2)(),
                (ctypes.c_char_p * 2)(b"text"),
                (ctypes.c_wchar_p * 2)("text"),
            ],
            "masked": [np.ma.masked_array(np.zeros(3), [0, 1, 0]), np.ma.zeros((2, 2))],
            "swapped": [np.zeros(3, ">f8"), np.zeros((2, 2), ">i4"), (ctypes.c_int32.__ctype_be__ * 3)()],
            "moved": [self.step[:1].view("i8")],
            "no-buffer": [[1, 2], 5, "text", None, object()],
        }
        for buffer in odd[what]:
            if what == "moved":
                self.said("move", self.session.move, "step", buffer)
                continue
            self.said("protect", self.session.protect, "deep" if what == "dimensions" else "odd", buffer)

    def do_comm(self, _):
        """Opens with invalid communicators."""
        freed = self.comm.Dup()
        freed.Free()
        for comm in (freed, type(self.comm)(), 5, "world", self.comm.group):
            self.said("open", mainstay.open, self.space, comm)

    def do_keyword(self, _):
        for stage in ("77", 77, 1.5, True, [], b"pool", "po\udcffol"):
            self.said("open", mainstay.open, self.space, self.comm, stage=stage)

    def do_ended(self, _):
        session = mainstay.open(self.space + "-ended", self.comm)
        session.close()
        session.close()
        self.said("checkpoint", session.checkpoint)

    def do_objects(self, fault):
        """One of the objects makes this mistake; with "nothing" none does."""
        kind = type("Another" if fault == "unknown" else "Thing", (Thing,), {"fault": fault})
        with objects.open(self.session) as here:
            things = here.add(kind, kind.__name__.lower(), dimensions=1)
            kind.here, kind.things = here, things
            try:
                self.act(here, things, fault)
            except mainstay.Error:
                pass  # it was told

    def act(self, here, things, fault):
        def said(call, work, *given):
            done = []
            self.said(call, lambda: done.append(work(*given)))
            if not done:
                raise mainstay.Internal("told")
            return done[0]

        if said("restore", here.restore) is None:
            for index in range(self.rank, 9, self.comm.size):
                things.create(index)
        if fault == "twice" and self.rank == 2:
            things.create(4)
        things.broadcast("count")
        said("step", here.step)
        if fault == "unpacks":
            said("evacuate", here.evacuate, [1, 2])
        if fault == "leaves_all":
            self.said("evacuate", here.evacuate, [0, 1, 2])
        if fault == "strategy":
            self.said("balance", here.balance, "best")
        if fault == "left_out":
            self.said("put", self.session.put, "alone", b"some")
        said("checkpoint", here.checkpoint)

    def do_note(self, which):
        for value in [[5]] if which == "one" else ([5], None, b"5", {}):
            self.said("checkpoint", self.session.checkpoint, {"step": value})

    @property
    def output_file(self):
        """An output file of this rank, below the space."""
        return f"{self.space}/output-{self.rank}.csv"

    def do_output(self, path):
        self.said("protect", self.session.protect_output, path or self.output_file)

    def do_append(self, text):
        with open(self.output_file, "a") as file:
            file.write(text)

    def do_output_is(self, text):
        with open(self.output_file) as file:
            self.say("output_is", "OK" if file.read() == text else "WRONG")

    def do_cut(self, length):
        os.truncate(self.output_file, int(length))

    def do_hold(self, _):
        self.say("hold", "OK")
        sys.stdin.read()

    def meet(self):
        """Waits for all ranks, and leaves the processors to others meanwhile."""
        request = self.comm.Ibarrier() if self.comm else None
        while request and not request.Test():
            time.sleep(0.0005)

    def do_meet(self, _):
        self.meet()

    def do_die(self, _):
        os.kill(os.getpid(), signal.SIGKILL)

    def do_pause(self, _):
        """Stops all ranks until the standard input of rank 0 has a line."""
        self.meet()
        self.say("pause", "OK")
        if self.rank == 0 and not sys.stdin.readline():
            self.say("pause", "WRONG", "no line")
        self.meet()

    def do_as(self, user):
        """Becomes another user, and gives up root's rights for good."""
        os.setgroups([])
        os.setresgid(*[int(user)] * 3)
        os.setresuid(*[int(user)] * 3)

    def do_ballast(self, name):
        """Makes a file that takes all free space."""
        with open(name, "wb", buffering=0) as file:
            for size in (65536, 4096):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass

    def do_make(self, name):
        self.with_file(lambda: open(name, "w").close())

    def do_remove(self, name):
        self.with_file(lambda: os.unlink(name))

    def with_file(self, change):
        """One rank changes files for all ranks."""
        if self.comm:
            self.comm.Barrier()
        if self.rank == 0:
            change()
        if self.comm:
            self.comm.Barrier()

    def run(self, command):
        name, _, value = command.partition(":")
        if name.startswith("@"):
            if int(name[1:]) == self.rank:
                self.run(value)
        else:
            getattr(self, f"do_{name}")(value)


def main():
    arguments = sys.argv[1:]
    if arguments[0] == "--solo":
        arguments, comm = arguments[1:], None
    else:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    program = Program(arguments[0], comm)
    for command in arguments[1:]:
        program.run(command)
    program.say("end", "OK")


main()
