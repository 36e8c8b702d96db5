"""Checked by mypy, not run."""

import array
from pathlib import Path

import mainstay
import numpy as np
from mpi4py import MPI

field = np.zeros((3, 4))
notes: dict[str, int] = {"step": 5}

with mainstay.open(Path("space"), MPI.COMM_WORLD, keep=3, pool_bytes="64 MiB", every_seconds=0.5) as session:
    session.protect("field", field)
    session.protect("bytes", bytearray(3))
    session.protect("array", array.array("d"))
    session.protect_output("output")
    restored = session.restore()
    if restored is not None:
        print(restored.revision + 1, restored.skipped[0].upper(), restored.notes["step"].upper())
    try:
        if session.due(1):
            number: int = session.checkpoint(notes)
            session.checkpoint({"step": np.int64(5), "who": "me", "time": 0.5})
    except mainstay.DiskFull as error:
        print(error.kind.upper(), error.errno)
    revision: int = session.begin(1 << 20)
    session.write("a", 0, field)
    session.write("a", 8, b"bytes")
    with session.open("b", "wb") as writer:
        writer.write(b"x" * writer.tell())
    session.abandon()
    lengths: dict[str, int] = session.streams()
    whole: bytes = session.read("a") + session.read("a", 8, 5)
    got: int = session.readinto("a", 0, bytearray(3))
    with session.open("b") as reader:
        whole += reader.read()
    done: bool = session.poll()
    record = session.last_record()
    if record:
        print(record.perceived_ns / record.bytes)
    session.progress()
    session.wait(level="memory")
    session.wait()
