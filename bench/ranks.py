"""The cost of running an MPI program unchanged, as ranks in slots, beside the same program natively and by hand.

make bench NAME=ranks           writes bench/out/ranks.json; QUICK=1: within a minute
"""

import tempfile
from pathlib import Path

from harness import arguments, rows
from ranks import calls, jobs, losses, memory, programs, saving

QUICK = {"rounds": 2, "batches": 20, "steps": 40, "mib": 8, "stay": 64, "back": 8}


def options():
    quick = QUICK if arguments.QUICK else {}
    parser = arguments.Parser(__doc__, "ranks.json")
    parser.add_argument("--rounds", type=int, default=quick.get("rounds", 7))
    parser.add_argument(
        "--batches", type=int, default=quick.get("batches", 200), help="of calls and messages, in a job"
    )
    parser.add_argument("--steps", type=int, default=quick.get("steps", 400), help="of the program that computes")
    parser.add_argument("--mib", type=int, default=quick.get("mib", 64), help="of each rank that saves")
    parser.add_argument("--stay", type=int, default=quick.get("stay", 256), help="MiB of the large tables that stay")
    parser.add_argument("--back", type=int, default=quick.get("back", 40), help="MiB of each rank that is brought back")
    parser.add_argument("--processes", type=int, default=4 if quick else 16, help="of which some are lost")
    parser.add_argument("--lost", type=int, default=1 if quick else 10)
    parser.add_argument("--work", type=int, default=40 if quick else 600, help="steps of the job that loses processes")
    parser.add_argument("--only", nargs="+", default=[""], help="only cases with one of these in their name")
    return parser.parse_args()


def main():
    o = options()
    jobs.prepare(o)
    made = []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        programs.build(Path(folder))
        for part in (calls, saving, memory, losses):
            for measure in part.CASES:
                if not any(word in measure.__name__ for word in o.only):
                    continue
                of_case = list(measure(o, Path(folder)))
                print(rows.table(of_case), flush=True)
                made += of_case
                rows.write(o.out / "ranks.json", made)  # a later failure leaves these rows
    rows.end(o.out / "ranks.json", made)


if __name__ == "__main__":
    main()
