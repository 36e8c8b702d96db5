"""Saves and restores by the savers of sides.py.

    program.py turns FOLDER MIB ROUNDS SIDE...          saves by all of them in turns, beside a copy and a raw write
    program.py twice FOLDER MIB SIDE                    saves 1, waits for a line of input, and saves 2
    program.py restore FOLDER MIB SIDE SHARED NUMBER... restores, and finds out which number it is
    program.py versions

Prints a line of JSON for each measurement, with a value for each rank.
"""

import json
import logging
import os
import random
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import disk, sides, steps
from peers.state import State

WARM_UPS = 4  # after three revisions every block of a space was written before
SETTLE_S = 0.05
FLOORS = ("copy", "raw_write")


def say(comm, **values):
    """`side` and `round` as they are; of the others, one value for each rank."""
    same = {name: values.pop(name) for name in ("side", "round", "number") if name in values}
    gathered = comm.gather(values)
    if comm.rank == 0:
        line = {name: [value[name] for value in gathered] for name in values}
        print(json.dumps({**same, **line}), flush=True)


def settle(comm):
    comm.Barrier()
    if comm.rank == 0:
        os.sync()
        time.sleep(SETTLE_S)
    comm.Barrier()


def copy(state, copies):
    for name, part in state.parts.items():
        copies[name][:] = part


def raw_write(state, path):
    """The same bytes to a new file, and a sync."""
    with open(path, "wb") as file:
        file.writelines(state.parts.values())
        file.flush()
        os.fsync(file.fileno())


def timed(work, *values):
    start = time.perf_counter()
    work(*values)
    return {"seconds": time.perf_counter() - start}


def checkpoint(comm, side, folder, number):
    """Seconds until the program goes on, until the saver is done, until all is durable; unsynced bytes when done."""
    t1 = time.perf_counter()
    saving = side.save(number)
    next(saving)
    t2 = time.perf_counter()
    next(saving, None)
    done = time.perf_counter()
    comm.Barrier()
    together = time.perf_counter()
    unsynced = disk.unsynced(folder) if comm.rank == 0 else 0
    looked = time.perf_counter()
    if comm.rank == 0:
        disk.sync(folder)
    comm.Barrier()
    durable = time.perf_counter() - looked + together - t1
    return {"waits": t2 - t1, "done": done - t1, "durable": durable, "unsynced": unsynced}


def turns(comm, folder, mib, rounds, *names):
    state = State(int(mib), comm.rank, comm.size)
    copies = {name: part.copy() for name, part in state.parts.items()}
    raw = folder / f"raw-{comm.rank}"
    open_sides = {name: sides.ready(name, state, folder / name, comm, comm.size > 1)() for name in names}
    number = 0
    for round_ in range(-WARM_UPS, int(rounds)):
        for name in random.Random(round_).sample([*FLOORS, *names], len(FLOORS) + len(names)):
            number += 1
            state.rewrite(number)
            raw.unlink(missing_ok=True)
            settle(comm)
            if name == "copy":
                measured = timed(copy, state, copies)
            elif name == "raw_write":
                measured = timed(raw_write, state, raw)
            else:
                measured = checkpoint(comm, open_sides[name], folder / name, number)
                if comm.rank == 0:
                    steps.remove_older(folder / name)
            say(comm, side=name, round=round_, number=number, **measured)
    for name, side in open_sides.items():
        side.close()
        say(comm, side=f"{name}: room", round=0, room=disk.room(folder / name) if comm.rank == 0 else 0)


def twice(comm, folder, mib, name):
    state = State(int(mib), comm.rank, comm.size)
    side = sides.ready(name, state, folder, comm, shared=False)()
    for number in (1, 2):
        state.rewrite(number)
        for _ in side.save(number):
            pass
        print(json.dumps({"saved": number}), flush=True)
        sys.stdin.readline()
    side.close()


def restore(comm, folder, mib, name, shared, *numbers):
    state = State(int(mib), comm.rank, comm.size)
    state.clear()
    if comm.rank == 0:
        disk.drop(folder)
    take_up = sides.ready(name, state, folder, comm, shared == "shared")
    comm.Barrier()
    found = {"number": None, "seconds": None, "read": None, "error": None}
    read, start = disk.bytes_read(), time.perf_counter()
    try:
        side = take_up()
        parts = side.restore()
        found["seconds"], found["read"] = time.perf_counter() - start, disk.bytes_read() - read
        found["number"] = state.number_of(parts, [*map(int, numbers)])
        side.close()
    except Exception as error:  # each saver has its own
        found["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
    on_all = set(comm.allgather(found.pop("number")))
    say(comm, side=name, round=0, number=on_all.pop() if len(on_all) == 1 else None, **found)


def versions():
    from importlib.metadata import version

    import h5py

    names = ("numpy", "h5py", "torch", "torch-checkpointing", "mainstay-checkpoint")
    print(json.dumps({**{name: version(name) for name in names}, "HDF5": h5py.version.hdf5_version}))


def main():
    what, *words = sys.argv[1:]
    if what == "versions":
        versions()
        return
    from mpi4py import MPI

    logging.disable(logging.WARNING)  # that a checkpoint is overwritten, each time
    warnings.simplefilter("ignore")
    {"turns": turns, "twice": twice, "restore": restore}[what](MPI.COMM_WORLD, Path(words[0]), *words[1:])


if __name__ == "__main__":
    main()
