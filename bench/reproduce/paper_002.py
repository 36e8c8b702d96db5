"""Zheng, Shi, Kalé: FTC-Charm++: An In-Memory Checkpoint-Based Fault Tolerant Runtime for Charm++ and MPI."""

import os

from harness import command

from . import modelled
from .figure import LESS, SAME, Claim, Figure, Here, Steps, ms, of_two, one, rounded, value

PAPER = "002"
TITLE = "Copies in the memory of two nodes"
PROCESSORS = ("4", "8", "16", "32", "64", "128")
CORES = "all ranks share two cores, so work does not shrink with their number as it does on processors of their own"
LINK = "the network is the memory of one machine"
WAYS = {
    "(a) shared file system": "shared",
    "(b) local disk": "disk",
    "(c) double in memory": "memory",
    "(d) the same, 100 Mbit": "memory_slow",
    "(e) double on disk": "disk_double",
}
# Of the states of a recovery, as the paper numbers them.
PARTS = {
    "(1) noticed": "notice",
    "(2) regrouped": "group",
    "(3) opened anew": "opening",
    "(4) laid out": "layout",
    "(5) state back": "state",
    "step": "step",
}
RELIABILITY = ("--nodes", 5000, "--node-mtbf", "175200h", "--run", "400h", "--run-with", "1200h", "--interval", "6min")


def reliability(name):
    """Section 4.3: the probability that a run fails, in per cent, by `mainstay advise`."""
    return lambda _: 100 * command.document("advise", *RELIABILITY)["reliability"][name]


def largest(metric, of=value):
    """Of the largest size of Figure 5."""

    def find(results):
        cases = sorted(results.cases("levels", SIZES).items(), key=lambda one: int(one[0]))
        return one("levels", cases[-1][1], metric, of)(results) if cases else None

    return find


def divided(a, b):
    return a / b


def copy_rate(results):
    """Bytes a second that one processor of this machine copies, from the checkpoints of Figure 4."""
    found = results.cases("levels", r"(\d+) MB on 4 ranks, 2 nodes, blocking")
    if not found:
        return None
    [(size, case)] = found.items()
    return int(size) * modelled.MB / one("levels", case, "copy")(results) / len(os.sched_getaffinity(0))


def models_of_4(results):
    copy = copy_rate(results)
    networks = {"model, 100 Mbit": modelled.FAST_ETHERNET, "model, Myrinet": modelled.MYRINET}
    return {} if copy is None else {
        (name, count): 1e3 * modelled.checkpoint_s(int(count), 200 * modelled.MB, "memory", 2, copy=copy, network=network)
        for name, network in networks.items() for count in PROCESSORS
    }  # fmt: skip


def models_of_3(network):
    """The steps of 4 ranks, which share the processors of this machine, on processors of their own; and 8 checkpoints."""

    def find(results):
        case, cores = "jacobi3d, *MB on 4 ranks, 2 nodes", len(os.sched_getaffinity(0))
        run, copy = one("levels", case, "run_none")(results), copy_rate(results)
        if run is None or copy is None:
            return {}
        steps = {count: run * cores / int(count) for count in PROCESSORS}
        saved = {
            count: modelled.checkpoint_s(int(count), 200 * modelled.MB, "memory", 2, copy=copy, network=network)
            for count in PROCESSORS
        }
        return {
            **{("normal, model", count): seconds for count, seconds in steps.items()},
            **{("8 checkpoints, model", count): seconds + 8 * saved[count] for count, seconds in steps.items()},
        }

    return find


def models_of_5(results):
    """6 GB on 32 processors, with the disks and the server of the measurement."""
    copy, count, group = copy_rate(results), 32, "6000"
    if copy is None:
        return {}

    def seconds(level, copies, **costs):
        return modelled.checkpoint_s(
            count, 6000 * modelled.MB, level, copies, copy=copy, **{"network": modelled.MYRINET, **costs}
        )

    return {
        ("(a) shared file system", group): seconds("space", 1, **{"file-system": SHARED}),
        ("(c) double in memory", group): seconds("memory", 2),
        ("(d) the same, 100 Mbit", group): seconds("memory", 2, network=modelled.FAST_ETHERNET),
        ("(e) double on disk", group): seconds("disk", 2, disk=DISK),
    }


SHARED, DISK = 12.5e6, 10e6  # bytes a second, as in bench/levels.py
SIZES = r"size, (\d+) MB"
RUNS = {
    "normal": {"metric": "run_none"},
    "without checkpoints": {"metric": "run_idle"},
    "8 checkpoints": {"metric": "run_saving"},
}
RUN = r"jacobi3d, \d+ MB on (\d+) ranks, 2 nodes"
NONE_LOST, MANY_LOST = "0 of 16 ranks are lost", "10 of 16 ranks are lost"

FIGURES = (
    Figure("Figure 1", "", drawing="virtual processors"),
    Figure("Figure 2", "", drawing="the copies before a failure and after it"),
    *(
        Figure(
            f"Figure 3({letter})", f"Whole runs of Jacobi3D with 8 checkpoints, {network}", "bars", "s", "processors", PROCESSORS,
            here=Here(RUN, RUNS, bench="levels"),
            claims=(Claim("16 ranks: time of a run that is ready for failures, of a normal one", 1.0,
                          of_two(one("levels", "jacobi3d, *16 ranks, 2 nodes", "run_idle"),
                                 one("levels", "jacobi3d, *16 ranks, 2 nodes", "run_none"), divided), LESS, "×"),),
            needs={"levels": ("jacobi3d",)}, why=f"the text gives no times; {CORES}",
            lacking=f"{network}, and more processors than the machine has: the model gives them", model=models_of_3(link),
        ) for letter, network, link in (("a", "100 Mbit Ethernet", modelled.FAST_ETHERNET), ("b", "Myrinet", modelled.MYRINET))
    ),
    Figure(
        "Figure 4", "One checkpoint of Jacobi3D, 200 MB in all", "bars", "ms", "processors", PROCESSORS,
        published={("100 Mbit", "128"): 320, ("Myrinet", "128"): 89},
        here=Here(r"\d+ MB on (\d+) ranks, 2 nodes, blocking", {"memory of this machine": {"metric": "perceived", "of": ms}}, bench="levels"),
        claims=(*(Claim(f"128 processors, {name}, by the model", published, lambda results, name=name: models_of_4(results).get((f"model, {name}", "128")), LESS, "ms")
                  for name, published in (("100 Mbit", 320), ("Myrinet", 89))),
                Claim("a checkpoint of 200 MB: 16 ranks here, 128 there", 89, one("levels", "*MB on 16 ranks, 2 nodes, blocking", "perceived", ms), LESS, "ms"),),
        needs={"levels": ("blocking",)}, why=CORES, lacking="either network, and 128 processors: the model gives them", model=models_of_4,
    ),
    Figure(
        "Figure 5", "One checkpoint in memory and on disks, by size", "lines", "s", "MB in all", ("6000",),
        published={("(c) double in memory", "6000"): 4.0},
        here=Here(SIZES, {label: {"metric": way} for label, way in WAYS.items()}, bench="levels"),
        claims=(
            Claim("6 GB on 32 processors by Myrinet, by the model", 4.0, lambda results: models_of_5(results).get(("(c) double in memory", "6000")), LESS, "s"),
            Claim("double on disk: times the local disk", 2.0, of_two(largest("disk_double"), largest("disk"), divided), SAME, "×"),
            Claim("double in memory: MB in a second, of all", 1500, lambda results: rate(results), "more", "MB/s"),
        ),
        needs={"levels": ("size",)}, why=f"{LINK}; disks, server and link are made as slow as those of 2004", lacking="6 GB on 32 processors: the model gives them", model=models_of_5,
    ),
    Figure(
        "Figure 6", "The parts of a recovery", "stacked", "ms", "",
        here=Here({f"{ranks} ranks, {way}": {"case": f"a rank of {ranks} fails", "way": way} for ranks in (4, 8, 16) for way in ("shrunk", "spare")},
                  {label: {"part": part} for label, part in PARTS.items()}, bench="recovery", metric="{way}_{part}", of=ms),
        claims=(Claim("from the crash to the next step (the text: a few seconds)", 3000,
                      lambda results: next((ms(row) for ranks in (16, 8, 4) for row in results.rows("recovery", f"a rank of {ranks} fails", "shrunk")), None), LESS, "ms"),),
        needs={"recovery": ("a rank of",)}, why="no dummy process is started: ranks regroup by messages that MPI's fault tolerance has",
    ),
    Figure(
        "Figure 7", "Whole runs of LeanMD with processors lost", "lines", "s", "lost, one after another",
        here=Here(r"(\d+) of \d+ ranks are lost", {"the run": {"metric": "seconds"}}, bench="objects"),
        claims=(Claim("10 lost: times the run without a loss (the text: not more than)", 1.5,
                      of_two(one("objects", MANY_LOST, "seconds"), one("objects", NONE_LOST, "seconds"), divided), LESS, "×"),),
        needs={"objects": ()}, why="10 of 16 are lost here, and were 10 of 128; two cores do the work of all",
    ),
    Figure(
        "Figure 8", "Work of the busiest processor, step by step, with 10 lost", "lines", "of all work before the first loss", "steps as they were done",
        here=Steps("objects", "10 of * ranks are lost, each", {"busiest": "busiest_"}),
        claims=(Claim("steps done, those done again included, of 600", rounded(640 / 600), lambda results: steps(results), LESS, "×"),),
        needs={"objects": ()}, why="ranks that share cores take turns, so the work of the busiest stands for the time of a step",
    ),
    Figure(
        "Text, 4.3", "The probability that a run fails", "table", groups=("a run of 400 h",),
        published={("without, %", "a run of 400 h"): 99.9989, ("with copies, %", "a run of 400 h"): 0.000977},
        claims=(Claim("without checkpoints", 99.9989, reliability("fails_without_checkpoints"), SAME, "%"),
                Claim("with copies on two processors", 0.000977, reliability("fails_with_buddies"), SAME, "%")),
        why="the formula is the paper's",
    ),
    Figure(
        "Text, 4.1", "1 GB in memory on 32 processors", "table", groups=("1 GB",),
        published={("Myrinet, s", "1 GB"): 1.0, ("100 Mbit, s", "1 GB"): 2.0},
        here=Here({"1 GB": {"case": "size, 1000 MB"}}, {"memory of this machine, s": {"metric": "memory"}, "100 Mbit, s": {"metric": "memory_slow"}}, bench="levels"),
        claims=(Claim("a fast network (the text: less than)", 1.0, one("levels", "size, 1000 MB", "memory"), LESS, "s"),),
        needs={"levels": ("size",)}, why=f"{LINK}; four links of 100 Mbit carry here what 32 carried there",
    ),
)  # fmt: skip


def rate(results):
    cases = results.cases("levels", SIZES)
    if not cases:
        return None
    size = max(map(int, cases))
    found = one("levels", cases[str(size)], "memory")(results)
    return None if found is None else size / found


def steps(results):
    """Of the run that loses most."""
    done = len(list(results.rows("objects", MANY_LOST + ", each", "busiest_")))
    calm = len(list(results.rows("objects", NONE_LOST + ", each", "busiest_")))
    return done / calm if done and calm else None
