#!/usr/bin/env python3
"""Runs random programs and compares them with the model.

.venv/bin/python tests/model/run.py --seed 7                     one program, printed step by step if it fails
.venv/bin/python tests/model/run.py --seed 7 --world mpich       with C under MPICH
.venv/bin/python tests/model/run.py --shrunk file.json           one from a file, as a failure leaves it
.venv/bin/python tests/model/run.py --seconds 3600 --seed 1000   as many as time allows, from this seed on
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "tests", "examples/jacobi3d")]

from model import generate, play, program  # noqa: E402
from model.hold_against import why_wrong  # noqa: E402
from model.shrink import shrink  # noqa: E402

# Where programs that have failed are put.
FAILED = ROOT / "target" / "tests" / "failed"
SHRINK_S = 120

# The world of a seed: starting under an MPI takes as long as ten programs without.
TURN = ["forked"] * 12 + ["openmpi", "mpich", "python-openmpi", "forked", "forked", "openmpi", "python-mpich", "mpich"]


def world_of(seed):
    return TURN[seed % len(TURN)]


def failure(one, why, commands, shrink_s=SHRINK_S):
    """The report about a failed program: the smallest one that fails, and the command to run it again."""
    small, why = shrink(one, commands, why, shrink_s) if shrink_s else (one, why)
    FAILED.mkdir(parents=True, exist_ok=True)
    file = FAILED / f"{one.get('seed', 'file')}-{one['world']}.json"
    program.write(small, file)
    again = f".venv/bin/python tests/model/run.py --seed {one.get('seed', 0)} --shrunk {file}"
    return f"seed {one.get('seed')}, {one['world']}: {why}\nagain: {again}\n{file.read_text() if shrink_s else ''}"


class Campaign:
    """Programs of one seed after the other, until the time is over, so many were played, or one fails."""

    def __init__(self, seed, seconds, world=None, count=None):
        self.seed, self.end, self.world = seed, time.monotonic() + seconds, world
        self.last = float("inf") if count is None else seed + count
        worlds = [world] if world else sorted(set(TURN))
        self.commands = {world: play.builds(world) for world in worlds}
        self.played = {world: 0 for world in worlds}
        self.failures = []

    def run(self, failures_max=1, shrink_s=SHRINK_S):
        while time.monotonic() < self.end and self.seed < self.last and len(self.failures) < failures_max:
            world = self.world or world_of(self.seed)
            one = generate.program(self.seed, world)
            if why := why_wrong(one, self.commands):
                self.failures.append(failure(one, why, self.commands, shrink_s))
                print(self.failures[-1], flush=True)
            self.played[world] += 1
            self.seed += 1
        return self


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--world", choices=program.WORLDS)
    options.add_argument("--shrunk", type=Path)
    options.add_argument("--seconds", type=float)
    options.add_argument("--failures", type=int, default=1, help="go on until so many have failed")
    options.add_argument("--no-shrink", action="store_true")
    options.add_argument("--print", action="store_true", help="print the program and play nothing")
    given = options.parse_args()
    if given.seconds:
        campaign = Campaign(given.seed, given.seconds, given.world).run(
            given.failures, 0 if given.no_shrink else SHRINK_S
        )
        print(f"{campaign.played}, seeds {given.seed} to {campaign.seed - 1}: {len(campaign.failures)} failed")
        sys.exit(bool(campaign.failures))
    one = (
        program.read(given.shrunk)
        if given.shrunk
        else generate.program(given.seed, given.world or world_of(given.seed))
    )
    if given.print:
        program.write(one, "/dev/stdout")
        return
    commands = {one["world"]: play.builds(one["world"])}
    why = why_wrong(one, commands)
    print(why and failure(one, why, commands, 0 if given.no_shrink or given.shrunk else SHRINK_S) or "well", flush=True)
    sys.exit(bool(why))


if __name__ == "__main__":
    main()
