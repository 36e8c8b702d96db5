"""The cost of a restore on another number of ranks: four have saved; two, four and six restore.

make bench NAME=across          writes bench/out/across.json; QUICK=1: within a minute
"""

import tempfile
from pathlib import Path

from harness import arguments, machine, mpi, rows

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "across" / "program.py"
SAVED = 4
LIMIT_S = 300  # of one job


def options():
    quick = arguments.QUICK
    parser = arguments.Parser(__doc__, "across.json")
    parser.add_argument("--part", type=int, default=8 if quick else 64, help="MiB of each rank that saves")
    parser.add_argument("--rounds", type=int, default=2 if quick else 9)
    return parser.parse_args()


def main():
    o = options()
    for folder in (o.out, o.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    print(machine.describe(o.scratch))
    made = []
    with tempfile.TemporaryDirectory(prefix="run-", dir=o.scratch) as scratch:
        space, case = Path(scratch) / "space", f"{SAVED} x {o.part} MiB, cold"

        def run(ranks, *words):
            command = [mpi.PYTHON, PROGRAM, space, o.part * SAVED, *words]
            return mpi.Measured(mpi.run(ranks, command, scratch, LIMIT_S))

        run(SAVED, "save")
        measured = {ranks: run(ranks, "restore", o.rounds) for ranks in (SAVED, 2, 6)}
        for ranks, took in measured.items():
            raw, restored = f"raw read, {ranks} ranks", f"restore on {ranks} ranks"
            made.append(rows.floor(case, raw, took.of("raw"), "s"))
            made.append(rows.row(case, restored, took.of("restore"), "s", raw, took.of("raw")))
        same = f"restore on {SAVED} ranks"
        for ranks in (2, 6):
            beside = rows.row(case, f"{ranks} ranks beside {SAVED}", measured[ranks].of("restore"), "s",
                              same, measured[SAVED].of("restore"))  # fmt: skip
            made.append(beside)
    rows.write(o.out / "across.json", made)
    print(rows.table(made))


if __name__ == "__main__":
    main()
