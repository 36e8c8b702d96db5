"""Restart files of programs that are not changed, under `mainstay files` and without it.

make bench NAME=files           writes bench/out/files.json; QUICK=1: small, within a minute
"""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from harness import arguments, machine, mpi, rows

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
IN_C = ("fwrite whole", "fwrite 4 KiB", "pwrite 64 KiB", "pwrite 64 KiB random", "pwrite 8 MiB")
IN_PYTHON = ("h5py", "h5py in chunks", "np.savez")
COPY_MAX = 3.5  # of a copy into touched memory may calls of 64 KiB and more take
SYNCED_MAX = 1.0  # of the same with fsync may each pattern take
DURABLE_MAX = 1 / 0.9  # of direct writes to a new file and a sync may the copy after the close take
OPEN_S_MAX = 1e-6  # an open of another file may take more
OPENS = 20_000
WAIT_S = 120
LOOK_S = 0.0005


def options():
    parser = arguments.Parser(__doc__, "files.json")
    parser.add_argument("--mib", type=int, default=64 if arguments.QUICK else 512)
    parser.add_argument("--rounds", type=int, default=3 if arguments.QUICK else 9)
    parser.add_argument("--only", default="", help="only patterns with this in their name")
    return parser.parse_args()


class Writer:
    """A program that writes its file once at each call. A front stands before it, or does not."""

    def __init__(self, words, path, front=()):
        self.path = path
        self.process = subprocess.Popen(
            [*front, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=path.parent
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def write(self):
        """Seconds that the program waited, and seconds until the file has its name."""
        inode = self.inode()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args} ended")
        before, after = map(float, line.split())
        limit = time.monotonic() + WAIT_S
        while self.inode() == inode and time.monotonic() < limit:
            time.sleep(LOOK_S)
        return after - before, time.monotonic() - before

    def inode(self):
        return os.stat(self.path).st_ino if self.path.exists() else 0


class Plain(Writer):
    def write(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        before, after = map(float, self.process.stdout.readline().split())
        return after - before, after - before


def measure(o, pattern, program, folder):
    """The rounds of each side, in turns: plain, with fsync, the front, a copy in memory, and direct writes."""
    in_c = pattern not in IN_PYTHON
    writer = [program] if in_c else [mpi.PYTHON, HERE / "files" / "writer.py"]
    size = o.mib * MIB

    def words(path, syncs, name=pattern, of=writer):
        return [*of, name, path, str(size), str(int(syncs))]

    front = [mpi.MAINSTAY, "files", "--match", "front.*", "--"]
    sides = {
        "plain": lambda path: Plain(words(path, False), path),
        "with fsync": lambda path: Plain(words(path, True), path),
        "front": lambda path: Writer(words(path, False), path, front),
        "copy": lambda path: Plain(words(path, False, "copy", [program]), path),
        "direct": lambda path: Plain(words(path, True, "direct", [program]), path),
    }
    taken = {side: [] for side in sides}
    with ExitStack() as stack:
        writers = {side: stack.enter_context(make(folder / f"{side.split()[0]}.npz")) for side, make in sides.items()}
        for turn in range(-1, o.rounds):
            order = list(writers)
            for side in order[turn % len(order) :] + order[: turn % len(order)]:
                one = writers[side].write()
                if turn >= 0:
                    taken[side].append(one)
    return taken


def rows_of(o, pattern, taken):
    case = f"{pattern}, {o.mib} MiB"
    waited = {side: [one[0] for one in rounds] for side, rounds in taken.items()}
    durable = [one[1] - one[0] for one in taken["front"]]
    is_large = pattern in IN_C and pattern != "fwrite 4 KiB"
    return [
        rows.floor(case, "copy", waited["copy"], "s"),
        rows.floor(case, "direct", waited["direct"], "s"),
        rows.row(case, "plain", waited["plain"], "s", "copy", waited["copy"]),
        rows.row(case, "with fsync", waited["with fsync"], "s", "copy", waited["copy"]),
        rows.row(case, "front", waited["front"], "s", "copy", waited["copy"], COPY_MAX if is_large else None),
        rows.row(case, "front, of fsync", waited["front"], "s", "with fsync", waited["with fsync"], SYNCED_MAX),
        rows.row(case, "close to durable", durable, "s", "direct", waited["direct"], DURABLE_MAX),
    ]


def opens(o, program, folder):
    """An open of a file that does not match."""
    words = [program, "opens", folder / "none", str(MIB), "0"]
    front = [mpi.MAINSTAY, "files", "--match", "restart.*", "--"]
    path = folder / "none"
    with Plain(words, path) as plain, Plain([*front, *words], path) as caught:
        pairs = [(plain.write()[0] / OPENS, caught.write()[0] / OPENS) for _ in range(o.rounds)]
    bare, under = ([pair[side] for pair in pairs] for side in (0, 1))
    limit = (rows.median(bare) + OPEN_S_MAX) / rows.median(bare)
    case = "open and close of another file"
    return [rows.floor(case, "plain", bare, "s"), rows.row(case, "front", under, "s", "plain", bare, limit)]


def main():
    o = options()
    o.scratch.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.scratch))
    made = []
    with tempfile.TemporaryDirectory(prefix="files-", dir=o.scratch) as folder:
        folder = Path(folder)
        program = folder / "writer"
        subprocess.run(["cc", "-O2", HERE / "files" / "writer.c", "-o", program], check=True)
        for pattern in (*IN_C, *IN_PYTHON):
            if o.only not in pattern:
                continue
            data = folder / "data"
            data.mkdir()
            of_case = rows_of(o, pattern, measure(o, pattern, program, data))
            shutil.rmtree(data)
            print(rows.table(of_case), flush=True)
            made += of_case
        if o.only in "opens":
            of_case = opens(o, program, folder)
            print(rows.table(of_case))
            made += of_case
    rows.end(o.out / "files.json", made)


if __name__ == "__main__":
    main()
