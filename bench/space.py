"""Many processes and one parallel file system: a shared file, a file for each, and a space, as in paper 001.

    make bench NAME=space           writes bench/out/space.json and plots; QUICK=1: small, within a minute or two
"""

import argparse
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from harness import machine, mpi, rows
from space import places, plots, results

import cephfs

HERE = Path(__file__).resolve().parent
MB = 10**6
PUBLISHED_BYTES, SMALL_BYTES = 20 * MB, 2 * MB
CHECKPOINTS = 9  # published
PROCESSES = (16, 32, 64, 128)  # published
SERVERS = (1, 4)  # of metadata: centralised and distributed
MEMORY_PART = 0.5  # of what is free, that a case may take
COPIES = 14  # of what all ranks have, in memory: spaces of three revisions, files, and the ranks themselves
POOL_PART = 1.25  # of what the processes of a node save
POOL_BYTES_MIN = 16 << 20
SHARED_MEMORY = Path("/dev/shm")
LIMIT_S = 1800  # of one job


def options():
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=PROCESSES[:1] if quick else PROCESSES)
    parser.add_argument("--servers", type=int, nargs="*", default=SERVERS[:1] if quick else SERVERS, help="of metadata")
    parser.add_argument("--mounts", type=int, default=4, help="of CephFS; each is a node")
    parser.add_argument("--rounds", type=int, default=2 if quick else CHECKPOINTS)
    parser.add_argument("--mb", type=int, default=2 if quick else 0, help="of a process; 0: 20, or 2 without memory")
    parser.add_argument("--local", action=argparse.BooleanOptionalAction, default=True, help="the file system of --out")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="where space.json and the plots go")
    return parser.parse_args()


def bytes_of_one(o, processes):
    """What a process saves: whole words."""
    if o.mb:
        return o.mb * MB
    fits = processes * PUBLISHED_BYTES * COPIES < MEMORY_PART * memory_free()
    return PUBLISHED_BYTES if fits else SMALL_BYTES


def memory_free():
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


@contextlib.contextmanager
def local(out):
    """The folder of one node."""
    with tempfile.TemporaryDirectory(prefix="space-", dir=out) as folder:
        yield places.Local([Path(folder)])


@contextlib.contextmanager
def ceph(mounts, servers):
    with cephfs.CephFs(mounts, servers) as made:
        yield places.Ceph(made, servers)


def systems(o):
    """Names, and what brings them up."""
    if o.local:
        yield "local", lambda: local(o.out)
    if o.servers and (why := cephfs.missing()):
        print(f"NOT MEASURED: CephFS: {why}")
        return
    for servers in o.servers:
        yield f"CephFS, {servers} metadata server{'s' if servers > 1 else ''}", lambda s=servers: ceph(o.mounts, s)


def measure(o, program, place, processes):
    """What each save took and cost."""
    taken, before = [], None

    def told(line):
        nonlocal before
        if "next" in line:
            before = place.counters()
        else:
            taken.append({**line, "cost": place.counters() - before})

    bytes_each = bytes_of_one(o, processes)
    folders = place.make_folders(f"case-{processes}")
    of_node = max(POOL_BYTES_MIN, POOL_PART * bytes_each * -(-processes // len(folders)))
    try:
        # Pools of its own: what else starts on this machine would look into their spaces, and be counted.
        with tempfile.TemporaryDirectory(prefix="space-", dir=SHARED_MEMORY) as scratch:
            os.environ["MAINSTAY_POOL_DIRECTORY"] = scratch
            words = [program, ",".join(map(str, folders)), bytes_each, o.rounds, *results.way_words(int(of_node))]
            mpi.converse(processes, words, scratch, LIMIT_S, told)
    finally:
        shutil.rmtree(folders[0])
    return bytes_each, mpi.Measured(taken)


def main():
    o = options()
    o.out.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.out))
    made = []
    with tempfile.TemporaryDirectory(prefix="space-") as folder:
        program = Path(folder) / "space"
        mpi.build(HERE / "space", program)
        for name, bring_up in systems(o):
            with bring_up() as place:
                for processes in o.processes:
                    bytes_each, taken = measure(o, program, place, processes)
                    case = f"{name}, {processes} x {bytes_each // MB} MB"
                    of_case = results.of_case(case, taken, counted=place.counts)
                    print(rows.table(of_case), *results.published(place.servers, processes), sep="\n  ", flush=True)
                    made += of_case
    rows.end(o.out / "space.json", made, plots.draw)


if __name__ == "__main__":
    main()
