"""The same work with Mainstay and with the other savers that a user can install: times, bytes, and failures.

make peers                      writes bench/out/peers.json and the table bench/out/peers.md; QUICK=1: small
"""

import random
import shutil
import tempfile
from pathlib import Path

from harness import arguments, machine, rows
from peers import criu, failures, jobs, results, sides, table

HERE = Path(__file__).resolve().parent
RANKS = (1, 2)


def options():
    quick = arguments.QUICK
    parser = arguments.Parser(__doc__, "peers.json and peers.md")
    parser.add_argument("--mib", type=int, default=64 if quick else 512, help="of all ranks together")
    parser.add_argument("--rounds", type=int, default=2 if quick else 9)
    parser.add_argument("--restarts", type=int, default=1 if quick else 5)
    parser.add_argument("--kills", type=int, default=1 if quick else 3)
    parser.add_argument(
        "--only", nargs="+", default=sides.NAMES, choices=sides.NAMES, help="these savers, and Mainstay"
    )
    chosen = parser.parse_args()
    chosen.sides = [name for name in sides.NAMES if name in (sides.MAINSTAY, *chosen.only)]
    return chosen


def need_environment():
    if not jobs.PYTHON.exists():
        raise SystemExit(f"{jobs.PYTHON.parents[1]} has the other savers; `make peers` makes it")


def need_room(o):
    """Three revisions of Mainstay's; of the others two checkpoints, one of them under way; the raw write."""
    needed = (3 + 2 * len(o.sides) + 1) * o.mib * 2**20
    for folder in (o.out, o.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(o.scratch).free
    print(f"needs {needed / 2**30:.1f} GiB of the disk while it runs ({free / 2**30:.1f} free in {o.scratch})")
    if free < needed:
        raise SystemExit("too little room on the disk; --scratch names another place")


def restarted(folder, mib, ranks, names, numbers, rounds):
    """Restarts in turns."""
    restarts = {name: [] for name in names}
    for round_ in range(rounds):
        for name in random.Random(round_).sample(names, len(names)):
            line = jobs.restored(folder / name, mib, name, ranks, ranks, numbers[name])
            if line["number"] != numbers[name][0]:
                raise SystemExit(f"{name} does not give back its checkpoint: {line}")
            restarts[name].append(line)
    return restarts


def with_criu(o, scratch):
    """CRIU by itself, as it saves from outside: printed lines, restarts, outcomes of failures."""
    folder = scratch / criu.NAME
    folder.mkdir()
    with criu.Held(jobs.PYTHON, o.mib, scratch) as held:
        printed = list(criu.turns(held, folder, o.rounds))
        restarts = [criu.bring_back(held, folder) for _ in range(o.restarts)]
        if any(line["number"] != held.last for line in restarts):
            raise SystemExit(f"CRIU does not give back its checkpoint: {restarts}")
        flipped = failures.flip(folder, o.mib, held.last, lambda: criu.bring_back(held, folder))
    killed = failures.often(lambda: criu.kill_and_bring_back(jobs.PYTHON, o.mib, scratch), o.kills)
    return printed, restarts, failures.Found(killed, flipped)


def main():
    o = options()
    need_environment()
    need_room(o)
    print(about := machine.describe(o.scratch), flush=True)
    [versions] = jobs.run(1, o.scratch, "versions").printed
    refusal, made, found, folders, numbers = criu.refusal(), [], {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="peers-", dir=o.scratch) as scratch:
        for ranks in RANKS:
            folders[ranks] = folder = Path(scratch) / str(ranks)
            folder.mkdir()
            saved = jobs.run(ranks, folder, "turns", folder, o.mib, o.rounds, *o.sides)
            numbers[ranks] = {name: results.numbers_of(saved, name) for name in o.sides}
            restarts = restarted(folder, o.mib, ranks, o.sides, numbers[ranks], o.restarts)
            if ranks == 1 and not refusal:
                printed, restarts[criu.NAME], found[criu.NAME] = with_criu(o, folder)
                saved.printed += printed
            made += results.of_case(f"{ranks} x {o.mib // ranks} MiB", saved, restarts, o.mib << 20)
        for name in o.sides:
            alone, two = (folders[ranks] / name for ranks in RANKS)
            own = {ranks: numbers[ranks][name] for ranks in RANKS}
            found[name] = failures.of_saver(alone, two, o.mib, name, o.kills, own)
    rows.write(o.out / "peers.json", made)
    if not refusal:
        versions[criu.NAME] = criu.version()
    text = table.page(made, found, versions, refusal, about)
    (o.out / "peers.md").write_text(text)
    print(f"\n{text}\n{len(made)} rows in {o.out / 'peers.json'}; the table is in {o.out / 'peers.md'}")


if __name__ == "__main__":
    main()
