"""Many processes and one parallel file system: a shared file, a file for each process, and a space, as in paper 001.

    make bench NAME=space           writes bench/out/space.json; QUICK=1: small, within a minute or two

The benchmark can run in parts. Each part leaves its measurements in space.json; the next part adds to them with --add:

    .venv/bin/python bench/space.py --servers 1 --no-local
    .venv/bin/python bench/space.py --servers 4 --add
"""

import argparse
import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from harness import arguments, machine, mpi, rows
from space import places, results

import cephfs

HERE = Path(__file__).resolve().parent
MB = 10**6
PUBLISHED_BYTES, SMALL_BYTES = 20 * MB, 2 * MB
CHECKPOINTS = 9  # published
PROCESSES = (16, 32, 64, 128)  # published
SERVERS = (1, 4)  # of metadata: centralised and distributed
MEMORY_PART = 0.6  # of what is free, that a case may take
POOL_PART = 1.25  # of what the processes of a node save
COPIES_OF_SPACE = 4 + POOL_PART  # of what all ranks have, in memory: revisions that there is room for, and the pool
COPIES_OF_FILES = 2  # until what was removed is gone
LAZY = "--client_force_lazyio=true"
POOL_BYTES_MIN = 16 << 20
SHARED_MEMORY = Path("/dev/shm")
LIMIT_S = 1800  # of one job


def options():
    quick = arguments.QUICK
    parser = arguments.Parser(__doc__, "space.json", has_scratch=False)
    parser.add_argument("--processes", type=int, nargs="+", default=PROCESSES[:1] if quick else PROCESSES)
    parser.add_argument("--servers", type=int, nargs="*", default=SERVERS[:1] if quick else SERVERS, help="of metadata")
    parser.add_argument("--mounts", type=int, default=4, help="of CephFS; each is a node")
    parser.add_argument("--rounds", type=int, default=2 if quick else CHECKPOINTS)
    parser.add_argument("--mb", type=int, default=2 if quick else 0, help="of a process; 0: 20, or 2 without memory")
    parser.add_argument(
        "--ways", nargs="+", choices=results.WAYS, default=results.WAYS, help="the fewer, the less memory"
    )
    parser.add_argument("--add", action="store_true", help="to space.json; what it has is not measured again")
    parser.add_argument("--local", action=argparse.BooleanOptionalAction, default=True, help="the file system of --out")
    return parser.parse_args()


def bytes_of_one(o, processes):
    """The bytes that a process saves: whole words."""
    if o.mb:
        return o.mb * MB
    copies = 1 + sum(COPIES_OF_SPACE if way in results.DELEGATED else COPIES_OF_FILES for way in o.ways)
    return PUBLISHED_BYTES if processes * PUBLISHED_BYTES * copies < MEMORY_PART * o.memory else SMALL_BYTES


def memory_free():
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


@contextlib.contextmanager
def local(out):
    """The folder of one node."""
    with tempfile.TemporaryDirectory(prefix="space-", dir=out) as folder:
        yield places.Local([Path(folder)])


@contextlib.contextmanager
def ceph(o, servers):
    with cephfs.CephFs(o.mounts, servers, bytes_each=o.memory) as made:
        yield places.Ceph(made, servers, made.add_mounts(o.mounts, LAZY))


def systems(o):
    """The names of the file systems, and the functions that start them."""
    if o.local:
        yield "local", lambda: local(o.out)
    if o.servers and (why := cephfs.missing()):
        print(f"NOT MEASURED: CephFS: {why}")
        return
    for servers in o.servers:
        yield f"CephFS, {servers} metadata server{'s' if servers > 1 else ''}", lambda s=servers: ceph(o, s)


def measure(o, program, place, processes, ways):
    """The times and costs of each save."""
    taken, before = [], None

    def told(line):
        nonlocal before
        if "next" in line:
            place.settle()
            before = place.counters()
        else:
            taken.append({**line, "cost": place.counters() - before})

    folders, lazy = place.make_folders(f"case-{processes}")
    bytes_each = bytes_of_one(o, processes)
    of_node = max(POOL_BYTES_MIN, POOL_PART * bytes_each * -(-processes // len(folders)))
    lists = ";".join(",".join(map(str, each)) for each in (folders, lazy) if each)
    try:
        # Pools of its own: other Mainstay jobs on this machine would look into these spaces, and be counted.
        with tempfile.TemporaryDirectory(prefix="space-", dir=SHARED_MEMORY) as scratch:
            os.environ["MAINSTAY_POOL_DIRECTORY"] = scratch
            words = [
                program,
                lists,
                bytes_each,
                o.rounds,
                *results.way_words(ways, len(folders), int(of_node), bytes_each),
            ]
            mpi.converse(processes, words, scratch, LIMIT_S, told)
    finally:
        shutil.rmtree(folders[0])
    return mpi.Measured(taken)


def main():
    o = options()
    # Measured before the file system has content.
    o.memory = memory_free()
    o.out.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.out))
    written = o.out / "space.json"
    made = json.loads(written.read_text()) if o.add and written.exists() else []
    with tempfile.TemporaryDirectory(prefix="space-") as folder:
        program = Path(folder) / "space"
        mpi.build(HERE / "space", program)
        for name, bring_up in systems(o):
            cases = {n: f"{name}, {n} x {bytes_of_one(o, n) // MB} MB" for n in o.processes}
            missing = {n: case for n, case in cases.items() if all(row["case"] != case for row in made)}
            if not missing:
                continue
            with bring_up() as place:
                ways = [way for way in o.ways if place.lazy or not results.is_lazy(way)]
                for processes, case in missing.items():
                    taken = measure(o, program, place, processes, ways)
                    of_case = results.of_case(case, ways, taken, counted=place.counts)
                    print(rows.table(of_case), *results.published(place.servers, processes), sep="\n  ", flush=True)
                    made += of_case
                    rows.write(written, made)
    rows.end(written, made)


if __name__ == "__main__":
    main()
