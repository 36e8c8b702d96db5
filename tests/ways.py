"""The ways in which a job can be spread, over the files of its layout and over nodes; and combinations of cases."""

from itertools import product

import pytest

# Which ranks share a file, and on how many nodes they are. Of two each second rank is on the other.
WAYS = [{"per": per, "nodes": nodes} for per, nodes in product(["app", "node", "rank"], [1, 2])]
NODE = 'MAINSTAY_NODE=$(( (${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}) % NODES )) exec "$@"'


def name_of(way):
    return f"{way['per']}-{way['nodes']}"


def spread(way, command):
    """The command that runs each rank of `command` in that way."""
    variables = ["env", f"MAINSTAY_PER={way['per']}"]
    if way["nodes"] == 1:
        return [*variables, *command]
    return [*variables, "sh", "-c", NODE.replace("NODES", str(way["nodes"])), "sh", *command]


def rarely(*values):
    """Values of a parameter that the campaign alone has; one of several parameters together is a tuple."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.campaign) for value in values
    ]


def in_turn(*values):
    """Parameters of a test: all combinations of the values, of which `make test` has the first and the campaign the others."""
    first, *others = (pytest.param(*one, id="-".join(map(str, one))) for one in product(*values))
    return [first, *(pytest.param(*one.values, id=one.id, marks=pytest.mark.campaign) for one in others)]
