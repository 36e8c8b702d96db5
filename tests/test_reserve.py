"""One file for each node: ranks find out by themselves which ranks share one, and each finds its portion."""

import json
import subprocess

import pytest
from faults.stage import Stage
from limits import LIMIT_S
from mpi import BUILT
from programs import build_faults

MAINSTAY = BUILT / "mainstay"
RANKS = 4


@pytest.fixture
def job(scratch):
    """Runs a job of RANKS ranks; a shell computes a rank's node from $RANK."""
    program = build_faults()

    def run(node, *commands):
        wrapped = scratch / "wrapped"
        wrapped.write_text(f'#!/bin/sh\nRANK=$PMIX_RANK\nMAINSTAY_NODE={node} exec {program} "$@"\n')
        wrapped.chmod(0o755)
        row = {"c": RANKS}
        stage = Stage(row, scratch, wrapped, None, scratch, RANKS)
        stage.good(stage.run(*commands))

    return run


def layouts(space):
    """The ranks of each layout file, by its name."""
    shown = json.loads(subprocess.check_output([MAINSTAY, "show", space, "--json"], timeout=LIMIT_S))
    return {layout["file"]: [portion["rank"] for portion in layout["portions"]] for layout in shown["layouts"]}


def test_a_job_makes_a_file_for_each_node(job, scratch):
    job("$((RANK / 2))", "set:per=node", "open", "save:1", "wait", "save:2", "wait", "close")
    made = layouts(scratch / "space")
    assert sorted(made.values()) == [[0, 1], [2, 3]], made
    # The ranks have other nodes now; their portions stay in place.
    job("$((RANK % 2))", "set:per=node", "open", "restore", "holds:2", "save:3", "wait", "save:4", "wait", "close")
    assert layouts(scratch / "space") == made
    job("0", "open", "restore", "holds:4", "save:5", "close")
    assert layouts(scratch / "space") == made


@pytest.mark.campaign
def test_what_was_reserved_for_nodes_serves_others(job, scratch):
    space = scratch / "space"
    per_node = ["--per", "node", "--ranks-per-node", "2"]
    subprocess.check_call(
        [MAINSTAY, "reserve", space, "--ranks", str(RANKS), "--per-rank", "1MiB", *per_node], timeout=LIMIT_S
    )
    reserved = layouts(space)
    assert sorted(reserved.values()) == [[0, 1], [2, 3]], reserved
    job("$((RANK % 2))", "set:per=node", "open", "save:1", "wait", "save:2", "wait", "close")
    assert layouts(space) == reserved
    job("$((RANK / 2))", "open", "restore", "holds:2", "close")


@pytest.mark.campaign
def test_chunks_are_of_a_size_for_the_ranks_of_a_node(job, scratch):
    """A pool of 16 MiB has two chunks of 4 MiB for each of two ranks; for all four they would be smaller."""
    job("$((RANK / 2)) MAINSTAY_POOL_BYTES=16MiB MAINSTAY_CHUNK_BYTES=auto", "open", "save:1", "wait", "close")
    shown = subprocess.check_output([MAINSTAY, "show", scratch / "space", "--phases", "--json"], timeout=LIMIT_S)
    nodes = json.loads(shown)["revision"]["nodes"]
    assert [(node["pool_bytes"], node["chunk_bytes"]) for node in nodes] == [(16 << 20, 4 << 20)] * 2
