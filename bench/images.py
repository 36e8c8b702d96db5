"""Checkpoints of whole programs that know nothing of Mainstay, as ranks in slots: their writes, the four stages, and the
cost of three checkpoints for a run, as in papers 000 and 003.

make bench NAME=images          writes bench/out/images.json; QUICK=1: within a minute
make bench NAME=images NPB=DIR  also LU, BT, SP and CG of the NAS benchmarks in DIR, such as bin/lu.C.x
"""

import os
import tempfile
from pathlib import Path

from harness import arguments, rows
from images import programs, results, sides
from ranks import jobs

QUICK = {"seconds": 3, "rounds": 1, "part": 8}


def options():
    quick = QUICK if arguments.QUICK else {}
    parser = arguments.Parser(__doc__, "images.json")
    parser.add_argument("--seconds", type=float, default=quick.get("seconds", 20), help="of one run, about")
    parser.add_argument("--rounds", type=int, default=quick.get("rounds", 3))
    parser.add_argument(
        "--part", type=int, default=quick.get("part", 1), help="the memory of our program is divided by it"
    )
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--npb", type=Path, default=os.environ.get("NPB") or None, help="the NAS benchmarks, compiled")
    parser.add_argument("--only", nargs="+", default=[""], help="only programs with one of these in their name")
    parser.add_argument(
        "--sides", nargs="+", default=[""], help="only stages with one of these in their name, and direct"
    )
    chosen = parser.parse_args()
    chosen.sides = sides.chosen(chosen.sides, bool(quick))
    return chosen


def measured(o, program):
    """The runs of each side, in turns."""
    calm = [programs.run(o, program, sides.NONE)]
    found = {side: [] for side in o.sides}
    for number in range(o.rounds):
        for side in o.sides if number % 2 == 0 else reversed(o.sides):
            found[side].append(programs.run(o, program, side, calm[0].seconds))
        calm.append(programs.run(o, program, sides.NONE))
    # The first run without checkpoints only finds out how long it takes.
    return results.image_rows(program.case, found, calm[1:])


def main():
    o = options()
    jobs.prepare(o)
    made = []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        for program in programs.all_of(o, Path(folder)):
            if not any(part in program.case for part in o.only):
                continue
            of_case = list(measured(o, program))
            print(rows.table(of_case), flush=True)
            made += of_case
            rows.write(o.out / "images.json", made)  # what ends it later leaves this
    rows.end(o.out / "images.json", made)


if __name__ == "__main__":
    main()
