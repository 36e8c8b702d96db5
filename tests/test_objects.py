"""Objects that move: leanmd, in jobs that lose ranks, restart on others, and balance their load, always has the bits
of an undisturbed run."""

import functools
import json
import random
import re
import subprocess
import time

import pytest
from command import MAINSTAY
from crashes import mpi_fell_over
from jobs import run
from library import build
from limits import LIMIT_S
from mpi import OPENMPI, ROOT
from programs import build_c, build_cxx, place
from recovering import Recovering, begun_anew
from staged import pool_directory
from test_due import mainstay
from ways import rarely

RANKS = 4
STEPS = 24
SMALL = ["--cells", "3x3x3", "--atoms", 330, "--steps", STEPS, "--every", 4]
ENERGY_TOLERANCE = 1e-3  # of the kinetic energy, as examples/README.md says
AT_ONCE = {"MAINSTAY_EXCHANGE": "blocking"}  # so that it is known which revision has its copies
SHRINK, SPARE = {"way": "shrink"}, {"spares": 2}
BOTH = pytest.mark.parametrize("how", [SPARE, SHRINK], ids=["replace", "shrink"])
# Jobs that lose two ranks or more: each runs in both modes, with both programs.
SEEDS, CAMPAIGN_SEEDS = {"leanmd": 8, "jacobi3d": 7}, 125
# Each process is a node, and its memory is lost with it. The names of the nodes decide the holders of the copies.
NODE = """#!/bin/sh
number=$$
[ -z "$BY_RANK" ] || number=$OMPI_COMM_WORLD_RANK
export MAINSTAY_NODE="n$number" MAINSTAY_POOL_DIRECTORY="$NODES/$$"
mkdir -p "$MAINSTAY_POOL_DIRECTORY"
exec "$@"
"""


@functools.cache
def leanmd(mpi=OPENMPI):
    program = place(mpi, "leanmd")
    build(program, [ROOT / "examples" / "leanmd" / "leanmd.cpp"], "-O2", mpi=mpi, compiler="mpicxx", standard="c++17")
    return program


@functools.cache
def faults(mpi=OPENMPI):
    return build_cxx("objects.cpp", "objects", mpi=mpi)


@functools.cache
def counters(mpi=OPENMPI):
    return build_c(["objects.c"], "objects_c", mpi=mpi)


def told(output):
    """The last lines: energies, and the mark that depends on every bit."""
    found = re.search(r"^(\d+ steps, .*)\n(mark \S+)$", output, re.M)
    assert found, output
    return found.groups()


@functools.cache
def undisturbed(steps=STEPS):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        words = [leanmd(), *SMALL, "--steps", steps, "--space", Path(folder) / "space"]
        status, output = run(1, words, Path(folder))
        assert status == 0, output
        return told(output)


class Lossy(Recovering):
    """Jobs of leanmd that go on when ranks fail."""

    def __init__(self, folder, nodes):
        self.folder, self.nodes, self.mpi, self.jobs = folder, nodes, OPENMPI, 0
        self.node = folder / "node"
        self.node.write_text(NODE)
        self.node.chmod(0o755)

    def goes_on(self, *words, ranks=RANKS, anew=False, may_fall=False, **how):
        """`may_fall`: a second rank fails while the others regroup, where Open MPI can crash. The job then starts once
        more, and ends with the same bits. Any other reason for a new start is an error."""
        self.jobs += 1
        scratch, nodes = self.folder / str(self.jobs), self.nodes / str(self.jobs)
        scratch.mkdir()
        nodes.mkdir()
        command = [self.node, leanmd(), *SMALL, *words, "--space", scratch / "space"]
        with self.start(ranks, command, scratch, NODES=nodes, restarts=int(may_fall), **how) as job:
            for _ in job.lines():
                pass
            status = job.wait()
        output = "\n".join(job.output)
        assert status == 0, output
        assert told(output) == undisturbed(), output
        has_fallen = starts_again(output)
        assert anew is None or has_fallen or anew == begun_anew(output), output
        return output


def starts_again(output):
    """Whether the job had to start again, because MPI itself crashed."""
    does = len(re.findall(r"^mainstay: start \d+: ", output, re.M)) > 1
    assert not does or mpi_fell_over(output), output
    return does


@pytest.fixture
def lossy(scratch):
    with pool_directory() as nodes:
        yield Lossy(scratch, nodes)


@pytest.mark.campaign
@pytest.mark.parametrize("ranks", [5, 2])
def test_any_number_of_ranks_computes_the_same_bits(mpi, scratch, ranks):
    status, output = run(
        ranks, [leanmd(mpi), *SMALL, "--balance-every", 5, "--space", scratch / "space"], scratch, mpi=mpi
    )
    assert status == 0, output
    assert told(output) == undisturbed()


@pytest.mark.campaign
def test_energy_is_conserved():
    energies = [float(re.search(r"total (\S+)", undisturbed(steps)[0])[1]) for steps in (0, STEPS)]
    kinetic = float(re.search(r"kinetic (\S+),", undisturbed()[0])[1])
    assert abs(energies[1] - energies[0]) < ENERGY_TOLERANCE * kinetic, energies


@pytest.mark.campaign
def test_at_full_size_there_are_the_objects_of_the_paper_and_energy_is_conserved(scratch):
    """700 cells and 7,798 pairs of them, as in section 5.3 of paper 002; the atoms are those of ApoA1."""
    energies = []
    for steps in (0, 4, 4):
        words = [leanmd(), "--steps", steps, "--every", 4, "--space", scratch / "space"]
        status, output = run(2, words, scratch)
        assert status == 0, output
        last = told(output)[0]
        assert ", 92224 atoms, " in last, output
        energies.append([float(number) for number in re.findall(r"(?:kinetic|total) ([^\s,]+)", last)])
    assert re.search(rf"^revision 1: step 4, {700 + 7798} objects on 2 ranks, 0 elsewhere", output, re.M), output
    (_, before), (kinetic, after), again = energies
    assert again == [kinetic, after] and abs(after - before) < ENERGY_TOLERANCE * kinetic, energies


@pytest.mark.parametrize(("before", "after"), [(4, 2), *rarely((3, 3), (2, 5))])
def test_a_job_starts_again_on_other_ranks(mpi, scratch, before, after):
    words = [leanmd(mpi), *SMALL, "--space", scratch / "space"]
    status, output = run(before, [*words, "--steps", 10], scratch, mpi=mpi)
    assert status == 0, output
    status, output = run(after, words, scratch, mpi=mpi)
    assert status == 0, output
    back = re.search(r"revision 2: step 8, (\d+) objects on (\d+) ranks, (\d+) elsewhere", output)
    assert back and back[2] == str(after) and (back[3] == "0") == (before == after), output
    assert told(output) == undisturbed()


@pytest.mark.campaign
@BOTH
def test_a_rank_is_lost(lossy, how):
    output = lossy.goes_on("--crash", "1@10", **AT_ONCE, **how)
    assert re.search(r"revision \d+: step 8, ", output), output


@pytest.mark.parametrize("how", [SPARE, *rarely({})], ids=["spare", "spawn"])
def test_objects_of_a_rank_that_is_replaced_come_back_to_its_place_and_no_other_moves(lossy, how):
    """To a spare, or to a started process. Neither has data of its own in memory."""
    output = lossy.goes_on("--crash", "1@10", **AT_ONCE, **how)
    (back,) = re.findall(r"revision \d+: step 8, (\d+) objects on (\d+) ranks, (\d+) elsewhere", output)
    objects, ranks, elsewhere = map(int, back)
    # The objects of the lost rank count: less than a third here. If each went to its highest holder, most would move.
    assert ranks == RANKS and 0 < elsewhere <= objects // 3, output


@pytest.mark.campaign
@pytest.mark.parametrize("rank", [0, RANKS - 1])
def test_the_first_and_the_last_are_lost(lossy, rank):
    lossy.goes_on("--crash", f"{rank}@6", **AT_ONCE, **SHRINK)


def test_one_after_another_is_lost_until_two_are_left(lossy):
    """After each loss the copies of every object were made again."""
    output = lossy.goes_on("--crash", "1@6", "--crash", "0@13", "--crash", "3@19", ranks=5, **AT_ONCE, **SHRINK)
    assert len(re.findall("^revision", output, re.M)) == 3, output


@pytest.mark.parametrize("strategy", ["greedy", *rarely("none", "refine", "orphans", "graph")])
def test_the_load_is_balanced_after_a_failure(lossy, strategy):
    lossy.goes_on("--crash", "2@9", "--strategy", strategy, "--balance-after", 2, **AT_ONCE, **SHRINK)


@pytest.mark.campaign
def test_balancing_makes_the_busiest_rank_less_busy(lossy, scratch):
    # With these names one rank gets all objects of the failed rank.
    how = {"BY_RANK": "yes", **AT_ONCE, **SHRINK}
    lossy.goes_on(
        "--crash",
        "2@9",
        "--strategy",
        "greedy",
        "--balance-after",
        3,
        "--work",
        "pairs",
        "--trace",
        scratch / "trace",
        **how,
    )
    lines = [line.split() for line in (scratch / "trace").read_text().splitlines()]
    ratios = [float(most) / float(average) for _, ranks, _, most, average in lines if int(ranks) == RANKS - 1]
    # With few objects, and work measured in the steps around a failure; the benchmark has the full size, and its limit
    # 1.1.
    assert ratios[-1] < 1.25 < max(ratios[:3]), ratios


@pytest.mark.campaign
def test_a_rank_is_lost_after_all_objects_have_left_it(lossy):
    output = lossy.goes_on("--evacuate", "2@10", "--crash", "2@11", **AT_ONCE, **SHRINK)
    assert re.search(r"revision \d+: step 10, ", output), output


# From the beginning of a step that ends with a balancing, or begins with an evacuation, to a time after its end.


@pytest.mark.parametrize("after_us", [0, *rarely(700, 4000)])
def test_a_rank_is_lost_while_the_load_is_balanced(lossy, after_us):
    words = [
        "--crash",
        "2@9",
        "--crash",
        f"1@9+{after_us}",
        "--balance-after",
        2,
        "--strategy",
        "greedy",
        "--balance-every",
        1,
    ]
    lossy.goes_on(*words, ranks=RANKS + 1, may_fall=True, MAINSTAY_MEMORY_COPIES=3, **AT_ONCE, **SHRINK)


@pytest.mark.campaign
@pytest.mark.parametrize("after_us", [0, 700, 4000])
def test_a_rank_is_lost_while_objects_leave_another(lossy, after_us):
    lossy.goes_on(
        "--evacuate", "2@10", "--crash", f"1@10+{after_us}", may_fall=True, MAINSTAY_PFS_EVERY=1, **AT_ONCE, **SHRINK
    )


class Leaving:
    """A job of leanmd without an end. Its objects must leave nodes."""

    def __init__(self, lossy, ranks, before=(), **how):
        self.space, nodes = lossy.folder / "space", lossy.nodes / "endless"
        nodes.mkdir()
        command = [lossy.node, *before, leanmd(), *SMALL, "--steps", 10**9, "--tell", 1, "--space", self.space]
        how = {"NODES": nodes, "MAINSTAY_AGREE_SECONDS": "0.02", **how}
        self.job = lossy.start(ranks, command, lossy.folder, **how)

    def __enter__(self):
        self.job.__enter__()
        self.until(r"step 5$")
        return self

    def __exit__(self, *error):
        return self.job.__exit__(*error)

    def until(self, pattern):
        for line in self.job.lines():
            if re.match(pattern, line):
                return
        raise AssertionError(f"the job has ended: {self.job.tail()}")

    def nodes(self):
        """The nodes in the job's report, by their lowest ranks."""
        told = mainstay("status", "--json", self.space)
        # 5: no revision is complete yet, because the first may be under way.
        assert told.returncode in (0, 5), told.stdout + told.stderr
        return [node["name"] for node in json.loads(told.stdout)["job"]["nodes"]]

    def leave(self, node):
        return mainstay("evacuate", self.space, node, "--timeout", "2min")

    def moved(self, node):
        """The number of objects that have left it."""
        told = self.leave(node)
        found = re.fullmatch(
            rf"(\d+) objects? and \d+ cop(?:y|ies) have left node {node}; revision \d+ is complete\n(\d+ cop(?:y|ies) stays? .*\n)?",
            told.stdout,
        )
        assert told.returncode == 0 and found, (told, self.job.tail())
        return int(found[1])

    def holders(self):
        """The holder of the copy of each shard, in the job's report."""
        told = mainstay("status", "--json", self.space)
        return json.loads(told.stdout)["levels"][0]["copies"][0]["holders"]

    def refused(self, node, says):
        told = self.leave(node)
        assert told.returncode == 4 and says in told.stderr, told


def test_mainstay_evacuate_has_all_objects_leave_a_node_while_the_job_runs(lossy):
    with Leaving(lossy, RANKS, **SHRINK) as job:
        first, second, third, last = job.nodes()
        assert job.moved(second) > 0 and job.moved(second) == 0
        assert job.moved(third) > 0 and job.moved(third) == 0
        job.refused("n0", f"no rank of the job is on node n0; the job's nodes are: {', '.join(sorted(job.nodes()))}")
        job.job.kill_rank(1)
        job.until(r"revision \d+: .* on 3 ranks")
        # No object goes to an emptied node, whatever else fails.
        assert job.moved(third) == 0
        job.moved(last)
        job.refused(first, f"all nodes other than {first} were emptied before")
        asked = mainstay("evacuate", "--json", job.space, last)
        assert json.loads(asked.stdout)["moved"] == 0 and json.loads(asked.stdout)["node"] == last, asked


@pytest.mark.campaign
def test_copies_leave_a_node_too_so_that_it_can_fail_with_one_that_it_held_for(lossy):
    """Before, an emptied node went on holding copies, and they were lost with it."""
    ranks = 5
    with Leaving(lossy, ranks, **SHRINK) as job:
        left, ward = job.holders()[0], 0
        node = job.nodes()[left]
        said = job.leave(node)
        assert re.search(r"objects and 1 copy have left node", said.stdout), said
        for _ in range(100):  # the status is written every second
            now = job.holders()
            if left not in now:
                break
            time.sleep(0.1)
        assert left not in now and now[left] not in (left, ward), now
        assert job.leave(node).stdout.startswith("0 objects and 0 copies"), now
        job.job.kill_rank(left)
        job.job.kill_rank(ward)
        job.until(rf"revision [1-9]\d*: .* on {ranks - 2} ranks")
        job.until(r"step \d+$")


@pytest.mark.campaign
def test_a_program_has_copies_leave_with_the_objects_and_come_back(lossy):
    """The first of the two failing nodes held a copy of the other, until it was emptied."""
    words = ["--evacuate", "2@10", "--crash", "2@15", "--crash", "1@15"]
    output = lossy.goes_on(*words, ranks=5, **AT_ONCE, **SHRINK)
    assert re.search(r"revision \d+: step 12, .* on 3 ranks", output), output


@pytest.mark.campaign
def test_copies_stay_where_there_is_no_other_node_to_hold_them(lossy):
    with Leaving(lossy, 2, **SHRINK) as job:
        said = job.leave(job.nodes()[1])
        assert said.returncode == 0 and "2 copies stay" not in said.stdout, said
        assert re.search(r" objects and 0 copies have left node .*\n1 copy stays on emptied nodes", said.stdout), said
        assert job.holders() == [1, 0]
        job.job.kill_rank(0)
        job.until(r"revision [1-9]\d*: .* on 1 rank")


def test_a_node_is_not_said_to_be_left_whose_loss_would_take_the_revision_along(lossy):
    """It was reported empty as soon as the disks of the nodes had the revision; but they are lost with it."""
    held = lossy.folder / "held"
    shim = {"LD_PRELOAD": build_c(["inject.c"], "inject.so", "-shared", "-fPIC"), "INJECT": "write:hold"}
    shim |= {"INJECT_WHEN": held, "INJECT_SPACE": lossy.folder / "space"}
    before = ["env", *(f"{name}={value}" for name, value in shim.items())]
    with Leaving(lossy, 3, before=before, MAINSTAY_MEMORY="off", MAINSTAY_DISK=lossy.folder / "disk", **SHRINK) as job:
        _, first, node = job.nodes()
        assert job.moved(first) > 0
        held.touch()
        said = mainstay("evacuate", job.space, node, "--timeout", "5s")
        assert said.returncode == 1 and f"is not complete beside node {node}" in said.stderr, said
        held.unlink()
        assert job.moved(node) == 0


@pytest.mark.campaign
def test_the_only_node_is_not_left(lossy):
    with Leaving(lossy, 1, **SHRINK) as job:
        job.refused(*job.nodes(), "there is no other for the objects to go to")


@pytest.mark.campaign
@pytest.mark.parametrize("after_ms", [0, 20, 60])
def test_a_rank_is_lost_while_objects_leave_a_node_that_somebody_named(lossy, after_ms):
    """The job recovers, and then does the requested evacuation."""
    with Leaving(lossy, RANKS, **AT_ONCE, **SHRINK) as job:
        node = job.nodes()[2]
        asked = subprocess.Popen(
            [MAINSTAY, "evacuate", job.space, node, "--timeout", "2min"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        time.sleep(after_ms / 1000)
        job.job.kill_rank(1)
        job.until(r"revision \d+: .* on 3 ranks")
        said = asked.communicate(timeout=LIMIT_S)[0]
        assert asked.returncode == 0 and f"have left node {node}" in said, (said, job.job.tail())
        assert job.moved(node) == 0


def test_mainstay_evacuate_says_so_where_there_is_nobody_to_ask_or_nothing_to_move(lossy, scratch, jacobi3d):
    told = mainstay("evacuate", scratch / "nothing", "n1")
    assert told.returncode == 3, told
    command = [*jacobi3d(scratch / "plain", 10**9, 10**9), "--progress", 10]
    with lossy.start(2, command, scratch, MAINSTAY_AGREE_SECONDS="0.02") as job:
        next(line for line in job.lines() if line == "step 20")
        told = mainstay("evacuate", scratch / "plain", "n1", "--timeout", "2min")
    assert told.returncode == 4 and "the program has no objects that move" in told.stderr, told


def random_crashes(chance, ranks, count):
    """Crashes of different ranks, each at some moment of a step, some steps after the crash before."""
    lost, step, words = chance.sample(range(ranks), count), chance.randrange(1, 5), []
    for rank in lost:
        words += [
            "--crash",
            f"{rank}@{step}+{chance.choice([0, chance.randrange(1, 3000), chance.randrange(1, 30000)])}",
        ]
        step += chance.randrange(5, 9)
    return words


def is_lost_at_random(lossy, seed, how):
    chance = random.Random(seed)
    ranks, count = RANKS + 1, chance.randrange(2, 4)
    strategy = chance.choice(["greedy", "refine", "orphans", "graph"])
    words = random_crashes(chance, ranks, min(count, how.get("spares", count)))
    # The first is mostly lost before a revision exists.
    how = {**how, "anew": None, "MAINSTAY_PFS_EVERY": 1}
    lossy.goes_on(*words, "--strategy", strategy, "--balance-after", 2, ranks=ranks, **how)


@pytest.mark.campaign
@BOTH
@pytest.mark.parametrize("seed", range(SEEDS["leanmd"]))
def test_ranks_are_lost_at_random(lossy, how, seed):
    is_lost_at_random(lossy, f"{how} {seed}", how)


@pytest.mark.campaign
@BOTH
def test_many_ranks_are_lost_at_random(lossy, how):
    for seed in range(CAMPAIGN_SEEDS):
        is_lost_at_random(lossy, f"campaign {how} {seed}", how)


@pytest.fixture(scope="module")
def jacobi3d_objects(tmp_path_factory):
    from build import build_objects

    folder = tmp_path_factory.mktemp("jacobi3d-objects")
    build_objects(folder / "jacobi3d_objects")
    return folder / "jacobi3d_objects"


@pytest.fixture(scope="module")
def plain_field(jacobi3d, tmp_path_factory):
    """The result of jacobi3d without objects."""
    folder = tmp_path_factory.mktemp("plain")
    words = [*jacobi3d(folder / "space", 400, 50), "--no-checkpoint", "--out", folder / "field"]
    status, output = run(2, words, folder)
    assert status == 0, output
    return (folder / "field").read_bytes()


@pytest.fixture
def fields(jacobi3d, jacobi3d_objects, plain_field, scratch):
    """The command for the program with objects, and the field that it must compute."""
    plain = jacobi3d(scratch / "space", 400, 50)
    return [jacobi3d_objects, "--objects", 30, *plain[1:], "--out", scratch / "objects"], plain_field


@pytest.mark.campaign
def test_jacobi3d_made_of_objects_computes_the_same_bits_and_starts_again_on_other_ranks(fields, scratch):
    objects, expected = fields
    status, output = run(4, [*objects, "--steps", 220], scratch)
    assert status == 0, output
    status, output = run(3, objects, scratch)
    assert status == 0 and "restored, continuing at step 200" in output, output
    assert (scratch / "objects").read_bytes() == expected


def loses(lossy, command, *crashes, ranks=RANKS, may_fall=False, **how):
    """The output of the command with these lost ranks; `may_fall` as for `goes_on`."""
    lossy.jobs += 1
    scratch, nodes = lossy.folder / str(lossy.jobs), lossy.nodes / str(lossy.jobs)
    scratch.mkdir()
    nodes.mkdir()
    with lossy.start(
        ranks, [lossy.node, *command, *crashes], scratch, NODES=nodes, restarts=int(may_fall), **how
    ) as job:
        for _ in job.lines():
            pass
        assert job.wait() == 0, "\n".join([*crashes, *job.output])
    output = "\n".join(job.output)
    starts_again(output)
    return output


@pytest.mark.campaign
@pytest.mark.parametrize("how", [SPARE, SHRINK], ids=["replace", "shrink"])
def test_jacobi3d_made_of_objects_loses_ranks(lossy, fields, scratch, how):
    objects, expected = fields
    output = loses(lossy, objects, "--crash", "1@103", "--crash", "2@251", **AT_ONCE, **how)
    assert re.findall(r"^restored, continuing at step (\d+)", output, re.M) == ["100", "250"], output
    assert (scratch / "objects").read_bytes() == expected


def loses_at_random(lossy, jacobi3d_objects, jacobi3d, seed, how):
    """The resulting field, and the mode."""
    chance = random.Random(seed)
    crashes = random_crashes(chance, RANKS + 1, min(chance.randrange(2, 4), how.get("spares", 3)))
    folder = lossy.folder / seed.replace(" ", "-")
    folder.mkdir()
    command = [jacobi3d_objects, "--objects", chance.choice([12, 30, 80])]
    command += [*jacobi3d(folder / "space", 400, chance.choice([3, 7, 50]))[1:], "--out", folder / "field"]
    output = loses(lossy, command, *crashes, ranks=RANKS + 1, may_fall=True, MAINSTAY_PFS_EVERY=1, **how)
    return (folder / "field").read_bytes(), (crashes, output)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(SEEDS["jacobi3d"]))
@BOTH
def test_jacobi3d_made_of_objects_loses_ranks_at_random(lossy, jacobi3d_objects, jacobi3d, plain_field, how, seed):
    field, told = loses_at_random(lossy, jacobi3d_objects, jacobi3d, f"{sorted(how)} {seed}", how)
    assert field == plain_field, told


@pytest.mark.campaign
@BOTH
def test_jacobi3d_made_of_objects_loses_many_ranks_at_random(lossy, jacobi3d_objects, jacobi3d, plain_field, how):
    for seed in range(CAMPAIGN_SEEDS):
        field, told = loses_at_random(lossy, jacobi3d_objects, jacobi3d, f"campaign {sorted(how)} {seed}", how)
        assert field == plain_field, told


def test_in_c_objects_come_back_on_other_ranks_and_what_is_missing_is_refused(mpi, scratch):
    def said(ranks, space, steps):
        status, output = run(ranks, [counters(mpi), scratch / space, steps], scratch, mpi=mpi)
        assert status == 0, output
        return output.strip()

    calm = said(1, "calm", 45)
    assert said(3, "space", 30).startswith("from revision 0, 0 objects, sum ")
    assert said(2, "space", 45) == calm.replace("revision 0, 0", "revision 3, 20")


FAULTS = {
    "throws": r"object thing\[4\] on rank 1: its method 1 failed: .*no such luck",
    "packs": r"object thing\[4\] on rank 1: .*it was \d+ bytes when it was sized, and .*packing wrote \d+",
    "grows": r"object thing\[4\] on rank 1: it was \d+ bytes when it was sized, and is \d+ now that it is packed",
    "unpacks": r"object thing\[4\] on rank 0: it came from rank 1, and packing wrote \d+ bytes, and unpacking took \d+",
    "beyond": r"object thing\[4\] on rank 0: .*unpacking reads beyond the end",
    "nowhere": r"object thing\[4\] on rank 1: it has sent a message to thing\[77\] \(method 1\), which no rank has made",
    "unknown": r"object thing\[0\] on rank 0: its kind is not registered here",
    "strategy": r'strategy "best": there is none of this name; there are: none, greedy, refine, orphans, graph',
    "reentered": r"object thing\[4\] on rank 1: .*step: it was called by a function of an object",
    "closes": r"object thing\[4\] on rank 1: .*close: it was called by a function of an object",
}


@pytest.mark.parametrize("fault", ["throws", *rarely(*(fault for fault in FAULTS if fault != "throws"))])
def test_what_an_object_does_wrong_is_told_by_its_name_and_rank(mpi, scratch, fault):
    status, output = run(3, [faults(mpi), scratch / "space", fault], scratch, mpi=mpi)
    assert status == 0, output
    lines = re.findall(r"^INVALID_ARGUMENT: (.*)$", output, re.M)
    assert len(lines) == 3 and len(set(lines)) == 1, output
    assert re.match(FAULTS[fault], lines[0]), output


@pytest.mark.campaign
def test_elements_that_pack_to_nothing_move_and_come_back(mpi, scratch):
    status, output = run(3, [faults(mpi), scratch / "space", "marks"], scratch, mpi=mpi)
    assert status == 0 and output.count("10 marks") == 9 and "INVALID" not in output, output


@pytest.mark.campaign
def test_what_is_longer_than_mpi_counts_goes_in_pieces(mpi, scratch):
    """More than 2 GiB to one rank, as after emptying a node with large objects, was taken for a failure of ranks, again
    after each recovery."""
    program = build_cxx("pieces.cpp", "pieces", mpi=mpi)
    status, output = run(3, [program, scratch / "space"], scratch, mpi=mpi)
    assert status == 0 and f"4 moved, {1000 * sum(range(1, 13))} are right" in output, output


def test_a_rank_goes_on_while_the_one_that_it_sends_to_is_at_work(mpi, scratch):
    """MPI transfers a long message only while its receiver calls MPI: the sender used to wait for all work there."""
    program = build_cxx("busy.cpp", "busy", "-DMAINSTAY_OBJECTS_PIECE_MAX=(1u<<20)", mpi=mpi)
    status, output = run(2, [program, scratch / "space", scratch / "note"], scratch, mpi=mpi)
    assert status == 0 and "in time, come" in output, output


def test_notes_come_back_with_objects(scratch):
    status, output = run(3, [faults(), scratch / "space", "noted"], scratch)
    assert status == 0 and output.split().count("40") == 3, output
