"""The sides of a benchmark run in turn, in a new order in each round."""

import random
import tempfile


def rounds(o, sides, count=None):
    """Runs each side once a round, in a scratch folder of its own. Returns the results of each side, by round."""
    found = {name: [] for name in sides}
    for number in range(count or o.rounds):
        for name in random.Random(number).sample(sorted(sides), len(sides)):
            with tempfile.TemporaryDirectory(prefix="ranks-", dir=o.scratch) as scratch:
                found[name].append(sides[name](scratch))
    return found
