"""Plays a part of a job that the model has thought out: tests/c/play.c in Python.

    play.py PLAN LOG

Rank r reads PLAN.r and writes LOG.r.
"""

import ctypes
import os
import re
import signal
import sys
import time
import zlib
from pathlib import Path

import mainstay
import numpy
from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from model.content import content  # noqa: E402

COMM = MPI.COMM_WORLD
STREAMS, NOTES = ("s0", "s1", "s2"), ("n0", "n1")
# Those of a session: passed over where there is none that goes on.
CALLS = {"output": "protect_output"}  # whose method has another name
FREE = {"open", "env", "meet", "pause", "sleep", "alarm", "die", "reader", "leave"}


class Timer(ctypes.Structure):
    """The argument of timer_create: struct sigevent."""

    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    ]


def killed_after(us):
    """The kernel kills this process after this number of microseconds, whatever the process does then."""
    library, timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
    event = Timer(signo=signal.SIGKILL, notify=0)
    after = (ctypes.c_long * 4)(0, 0, us // 1000000, us % 1000000 * 1000 + 1)
    failed = library.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer))
    assert not failed and not library.timer_settime(timer, 0, after, None), "no timer"


def crc(data):
    return f"{zlib.crc32(memoryview(data).cast('B') if memoryview(data).nbytes else b''):08x}"


class Player:
    def __init__(self, log):
        self.log = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.session, self.memories, self.output, self.notes = None, {}, None, {}
        self.over, self.begun = True, False
        self.refused = False  # the checkpoint that was to begin

    def say(self, text):
        os.write(self.log, text.replace("\n", "|").encode(errors="replace") + b"\n")

    def play_all(self, plan):
        for line in plan:
            index, call, *words = line.split()
            if self.over and call not in FREE and not (call == "close" and self.session):
                self.say(f"= {index} PASSED")
                continue
            # An alarm in between does not change this.
            passes = call in ("write", "checkpoint", "abandon")
            self.refused = self.refused and (passes or call == "poll" or call in FREE)
            if self.refused and passes:
                self.refused = call == "write"
                self.say(f"= {index} PASSED")
                continue
            self.say(f"> {index}")
            status = "OK"
            try:
                told = getattr(self, CALLS.get(call, call))(*(int(word) if word.isdigit() else word for word in words))
            except mainstay.Error as error:
                status, told = re.sub("(?<!^)(?=[A-Z])", "_", error.kind).upper(), str(error)
            self.say(f"= {index} {status} {'' if told is None else told}")
            if call == "open":
                self.over = status != "OK"
            if call == "restore" and status != "OK":
                self.over = True
            self.refused = self.refused or (call == "begin" and status != "OK")
            if call == "close" or (call == "open" and self.over):
                self.over, self.session, self.memories, self.output, self.notes = True, None, {}, None, {}
            if call not in FREE | {"write", "poll", "read"}:
                self.begun = call == "begin" and status == "OK"
            if status == "GROUP_FAILED":
                self.say("bereft")
                os._exit(0)

    def open(self, path, hints):
        given = dict(line.removeprefix("mainstay_").split("=", 1) for line in hints.split(";") if "=" in line)
        self.session = mainstay.open(
            path, COMM, hints={f"mainstay_{key}": value for key, value in given.items()} or None
        )

    def env(self, name, value):
        os.environ.pop(name, None) if value == "-" else os.environ.update({name: str(value)})

    def protect(self, name, count, salt):
        data = numpy.zeros(count, "u1")
        self.session.protect(name, data)
        self.memories[name] = (data, salt, 0)

    def box(self, name, rows, columns, first, mine):
        data = numpy.zeros((mine, columns), "u8")
        self.session.protect(name, data, global_shape=(rows, columns), offset=(first, 0))
        self.memories[name] = (data, 0, first * columns * 8)

    def unprotect(self, name):
        self.session.unprotect(name)
        del self.memories[name]

    def same(self, name):
        self.session.same_on_all_ranks(name)

    def fill(self, tag):
        for name, (data, salt, start) in self.memories.items():
            if data.nbytes:
                data.reshape(-1).view("u1")[:] = numpy.frombuffer(content(tag, salt, name, start, data.nbytes), "u1")

    def note(self, name, value):
        self.notes[name] = value  # goes with the next checkpoint

    def protect_output(self, path):
        self.session.protect_output(path)
        self.output = path

    def append(self, count):
        with open(self.output, "ab") as file:
            file.write(b"x" * count)

    def due(self, step):
        return int(self.session.due(step))

    def tick(self):
        self.session.tick()

    def settled(self, name, offset, count):
        self.session.settled(name, offset, count)

    def checkpoint(self):
        notes, self.begun = None if self.begun else self.notes, False
        return f"R={self.session.checkpoint(notes or None)}"

    def begin(self, count):
        number = self.session.begin(count, self.notes or None)
        self.begun = True  # with its notes
        return f"R={number}"

    def write(self, name, start, count, tag):
        data = bytearray(content(tag, COMM.rank + 1, name, start, count))
        self.session.write(name, start, data)
        data[:] = b"\xee" * count  # it is the program's again

    def abandon(self):
        self.begun = False
        self.session.abandon()

    def put(self, name, count, tag):
        return f"R={self.session.put(name, content(tag, COMM.rank + 1, name, 0, count))}"

    def put_largest(self, name, count, less, tag):
        while True:
            try:
                return f"{self.put(name, count, tag)} bytes={count}"
            except mainstay.PortionTooSmall:
                if count <= less:
                    raise
            count -= less

    def get(self, revision, name, room):
        data = bytearray(room)
        got = self.session.get(name, data, revision or None)
        if got is None:
            return f"R=0 skipped=0 0:{crc(b'')}"
        return f"R={got.revision} skipped={len(got.skipped)} {got.bytes}:{crc(data[: got.bytes])}"

    def get_bytes(self, revision, name):
        return self.session.get_bytes(name, revision or None) or 0

    def wait(self):
        self.session.wait()

    def poll(self):
        return int(self.session.poll())

    def restore(self):
        restored = self.session.restore()
        told = [f"R={restored.revision if restored else 0} skipped={len(restored.skipped) if restored else 0}"]
        told += [f"r:{name}:{data.nbytes}:{crc(data)}" for name, (data, _, _) in self.memories.items()]
        if restored:
            told += [f"s:{name}:{count}:{crc(self.session.read(name))}" for name, count in self.streams().items()]
            told += [f"n:{name}:{value}" for name, value in restored.notes.items()]
        if self.output:
            told.append(f"o:{os.stat(self.output).st_size if os.path.exists(self.output) else -1}")
        if restored and restored.skipped:
            told.append(f"# {restored.skipped}")
        return " ".join(told)

    def streams(self):
        try:
            return self.session.streams()
        except mainstay.Error:
            return {}  # another number of ranks saved them

    def read(self, name, start, count):
        data = self.session.read(name, start, count)
        return f"{len(data)}:{crc(data)}"

    def reader(self, path, revision):
        with mainstay.read(path, revision or None) as reader:
            told = [f"R={reader.revision}"]
            for shard in reader.shards:
                for item in shard.items:
                    data = reader.read(shard.number, item.name)
                    told.append(f"{shard.number}:{item.name}:{len(data)}:{crc(data)}")
            return " ".join(told)

    def close(self):
        session, self.session = self.session, None
        session.close()

    def meet(self):
        request = COMM.Ibarrier()
        while not request.Test():
            time.sleep(0.0002)

    def sleep(self, us):
        time.sleep(us / 1e6)

    def pause(self, file):
        deadline = time.monotonic() + 60
        while not os.path.exists(file) and time.monotonic() < deadline:
            time.sleep(0.001)
        self.meet()

    def alarm(self, us):
        killed_after(us)

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def leave(self):
        self.say("left")
        os._exit(0)


def main(plan, log):
    player = Player(f"{log}.{COMM.rank}")
    player.say(f"pid {os.getpid()}")
    with open(f"{plan}.{COMM.rank}") as lines:
        player.play_all(lines)
    player.say("end")


main(*sys.argv[1:])
