"""Ranks in slots that move between processes while the job runs."""

import json
import re
import subprocess

import pytest
from command import MAINSTAY
from limits import LIMIT_S, until
from slots import build, in_slots

RANKS = 8


def result(done):
    status, output = done
    found = re.findall(r"^sum .* ranks$", output, re.M)
    assert status == 0 and len(found) == 1, output
    return found


@pytest.mark.parametrize("strategy", ["greedy", pytest.param("graph", marks=pytest.mark.campaign)])
def test_ranks_move_for_an_even_load_and_compute_the_same(strategy, mpi, scratch):
    command = [build("uneven.c"), 40]
    (scratch / "calm").mkdir()
    calm = result(in_slots(command, RANKS, scratch / "calm"))
    options = ("--every", "100ms", "--balance", f"{strategy}:50ms")
    moved = in_slots(command, RANKS, scratch, mpi, 2, options)
    assert re.search(rf"\d+ of {RANKS} ranks moved, for an even load", moved[1]), moved[1]
    assert result(moved) == calm


def test_ranks_of_several_processes_move_to_one_at_the_same_time(mpi, scratch):
    """Parts of several ranks arrive alternately. A host took them for parts of one rank, and the job ended."""
    ranks, command = 16, [build("uneven.c"), 20]
    (scratch / "calm").mkdir()
    calm = result(in_slots(command, ranks, scratch / "calm"))
    moved = in_slots(command, ranks, scratch, mpi, 4, ("--balance", "greedy:50ms"))
    assert re.search(rf"\d+ of {ranks} ranks moved, for an even load", moved[1]), moved[1]
    assert result(moved) == calm


def asked(*words):
    return subprocess.run([MAINSTAY, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S)


ON_A_NODE = 'export MAINSTAY_NODE="n${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@"'


def test_mainstay_evacuate_has_all_ranks_leave_a_node_while_the_job_runs(mpi, scratch):
    # `mainstay run` has compiled the host program, and says its words.
    _, output = in_slots([build("uneven.c"), 1], RANKS, scratch, mpi, 2)
    host = re.search(r"(\S+/mainstay-ranks) --virtual", output)[1]
    library = re.search(r"--library (\S+)", output)[1]
    space = scratch / "moved"
    words = [host, "--virtual", RANKS, "--space", space, "--library", library, "--", build("uneven.c"), 10**6]
    variables = mpi.environment(scratch) | {"MAINSTAY_EVERY_SECONDS": "0.1"}
    command = mpi.mpiexec(2, ["sh", "-c", ON_A_NODE, "sh", *words])
    job = subprocess.Popen(list(map(str, command)), cwd=scratch, env=variables, start_new_session=True)
    try:
        until(lambda: asked("verify", space).returncode == 0)
        left = asked("evacuate", space, "n1", "--timeout", "2min")
        assert left.returncode == 0 and left.stdout.startswith(f"{RANKS // 2} objects"), left
        shards = json.loads(asked("show", "--json", space).stdout)["revision"]["shard_list"]
        refused = asked("evacuate", space, "n0", "--timeout", "2min")
        assert refused.returncode != 0 and "no node would be left to run on" in refused.stderr, refused
    finally:
        job.terminate()
        job.wait(LIMIT_S)
    places = {item["name"]: shard["shard"] for shard in shards for item in shard["items"]}
    assert {places[f"v{rank}"] for rank in range(RANKS)} == {0}, places
