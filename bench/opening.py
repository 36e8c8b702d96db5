"""The cost of opening a space, by the number of ranks, of items and of revisions kept.

make bench NAME=opening         writes bench/out/opening.json; QUICK=1: small, within a minute
"""

import os
import tempfile
import time
from pathlib import Path

from harness import arguments, machine, mpi, rows

HERE = Path(__file__).resolve().parent
RANKS = (1, 2, 4, 8, 16, 32, 64, 128)
ITEMS = (1, 10, 100, 1000, 10_000, 100_000)
KEEP = (1, 2, 4, 8, 16)
QUICK_RANKS, QUICK_ITEMS, QUICK_KEEP = (1, 4, 16), (1, 100, 10_000), (1, 16)
BESIDE_RANKS = 4  # where something else changes
LIMIT_S = 600  # of one job


def options():
    quick = arguments.QUICK
    parser = arguments.Parser(__doc__, "opening.json")
    parser.add_argument("--ranks", type=int, nargs="+", default=QUICK_RANKS if quick else RANKS)
    parser.add_argument("--items", type=int, nargs="+", default=QUICK_ITEMS if quick else ITEMS, help="of each rank")
    parser.add_argument("--keep", type=int, nargs="+", default=QUICK_KEEP if quick else KEEP)
    parser.add_argument("--rounds", type=int, default=2 if quick else 9)
    parser.add_argument("--only", default="", help="only series with this in their name: ranks, items, keep")
    return parser.parse_args()


def series(o):
    """For each series: its name and its points. A point is the growing number, then ranks, items and revisions kept."""
    yield "ranks", [(ranks, ranks, 1, 1) for ranks in o.ranks]
    yield "items", [(items, BESIDE_RANKS, items, 1) for items in o.items]
    yield "keep", [(keep, BESIDE_RANKS, 1, keep) for keep in o.keep]


def measure(o, program, ranks, items, keep):
    """Measures a job that opens a space again and again, and jobs that do nothing."""
    with tempfile.TemporaryDirectory(prefix="opening-", dir=o.scratch) as scratch:

        def run(*words):
            return mpi.run(ranks, [program, *words], scratch, LIMIT_S)

        empty = []
        for _ in range(o.rounds):
            started = time.perf_counter()
            run("empty")
            empty.append(time.perf_counter() - started)
        return empty, mpi.Measured(run("open", keep, items, o.rounds, f"{scratch}/space"))


def rows_of(case, empty, measured):
    reduced, opened = measured.of("allreduces"), measured.of("open")
    return [
        rows.floor(case, "empty", empty, "s"),
        rows.floor(case, "allreduces", reduced, "s"),
        rows.row(case, "open", opened, "s", "allreduces", reduced),
        rows.row(case, "open_to_empty", opened, "s", "empty", empty),
        rows.row(case, "restore", measured.of("open", "restore"), "s", "allreduces", reduced),
    ]


def growth_rows(name, points, found):
    """The growth from the first point to the last, compared with the allowance. For a series by ranks, the reference is
    the growth of bare all-reduces, from the first point at which ranks share processors and wait for one another."""
    if name == "ranks":
        shared = [index for index, (ranks, *_) in enumerate(points) if ranks > os.cpu_count()]
        shared = shared if len(shared) > 1 else range(len(points))
        points, found = ([of[index] for index in shared] for of in (points, found))
    (first, *_), (last, *_) = points[0], points[-1]
    case = f"{name}, from {first} to {last}"
    grown = {metric: found[-1][metric] / found[0][metric] for metric in ("allreduces", "open", "restore")}
    given, reduced = [last / first], [grown.pop("allreduces")]
    reference, against = ("allreduces", reduced) if name == "ranks" else ("given", given)
    made = [rows.floor(case, "given", given, "x"), rows.floor(case, "allreduces", reduced, "x")]
    return made + [rows.row(case, metric, [growth], "x", reference, against, 1) for metric, growth in grown.items()]


def main():
    o = options()
    for folder in (o.out, o.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.scratch), flush=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        program = Path(folder) / "opening"
        mpi.build(HERE / "opening", program)
        for name, points in series(o):
            if o.only not in name:
                continue
            found = []
            for _, ranks, items, keep in points:
                case = f"{name}: {ranks} ranks, {items} items, keep {keep}"
                of_case = rows_of(case, *measure(o, program, ranks, items, keep))
                print(rows.table(of_case), flush=True)
                found.append({row["metric"]: row["value"] for row in of_case})
                made += of_case
            of_series = growth_rows(name, points, found)
            print(rows.table(of_series), flush=True)
            made += of_series
    rows.end(o.out / "opening.json", made)


if __name__ == "__main__":
    main()
