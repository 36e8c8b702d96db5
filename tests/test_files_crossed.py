"""Random programs under `mainstay files` with random options: under its name each file is whole, as a model says."""

from contextlib import ExitStack

import pytest
from crossed import play
from protected import node_in
from ways import rarely

FEW = [(0, "plain"), (0, "preload"), (1, "preload"), (0, "kernel"), (0, "set"), (0, "nodes")]
MANY = [(seed, kind) for kind in ("plain", "preload", "kernel", "set", "nodes") for seed in range(2, 60)]


@pytest.mark.parametrize("seed, kind", [*FEW, *rarely(*MANY)])
def test_a_random_program_sees_and_leaves_the_files_of_the_model(scratch, seed, kind):
    with ExitStack() as stack:
        nodes = [stack.enter_context(node_in(scratch / "run")) for _ in range(2 if kind == "nodes" else 1)]
        play(seed, kind, nodes, scratch / "test")
