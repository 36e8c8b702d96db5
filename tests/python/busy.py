"""busy.py SPACE FILE: an object on rank 1 is at work while rank 0 sends it a long message, and has done with that: its next
message makes FILE."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import mainstay
from mainstay import objects
from mpi4py import MPI

SPACE, FILE = sys.argv[1], Path(sys.argv[2])


@dataclass
class Thing:
    number: int
    has_seen: bool = False
    has_come: bool = False

    @objects.handler
    def long(self, data):
        self.has_come = len(data) == 64 << 20

    @objects.handler
    def note(self):
        FILE.write_text("rank 0 goes on\n")

    @objects.handler
    def work(self):
        if not self.has_seen:
            time.sleep(0.005)
            self.has_seen = FILE.exists()


with mainstay.open(SPACE, MPI.COMM_WORLD) as session, objects.open(session) as here:
    things = here.add(Thing)
    here.restore()
    mine = things.create(session.rank)
    here.step()
    if session.rank == 0:
        things.send(1, "long", bytes(64 << 20))
        things.send(0, "note")
    else:
        for _ in range(1000):
            things.send(1, "work")
    here.step()
    if session.rank == 1:
        print("in time" if mine.has_seen else "too late", "come" if mine.has_come else "lost", sep=", ")
