"""A program as data: the actions on one space, in turn. It can be written to a file, and run again.

    {"seed": 7, "world": "forked", "acts": [ACT, ...]}

An act is one of
    {"job": {"ranks": 3, "nodes": [0, 0, 1], "survive": false, "settings": {"keep": "2"}, "steps": [STEP, ...]}}
    {"tool": ["prune", "SPACE", "--keep-last", "1"]}         with no job at work
    {"damage": {"flips": 3, "seed": 5}}                      bytes of the space's files that change
A step is a call that all ranks make, or only `ranks`, with the same words or with the words of each rank:
    {"call": "put", "words": ["p0", 100, 7]}    {"call": "checkpoint", "ranks": [0]}    {"call": "box", "each": [[...], ...]}
    {"call": "pause", "tools": [["verify", "SPACE"], ...]}   the ranks wait while these run beside the job
c/play.c describes the words. SPACE stands for the space, OUT for a folder, POOL for the directory of the pools of node 0.
"""

import json
from pathlib import Path

# The ways to run a program: the language of its ranks, and their means of communication.
WORLDS = {
    "forked": ("c", None),
    "openmpi": ("c", "openmpi"),
    "mpich": ("c", "mpich"),
    "python-openmpi": ("python", "openmpi"),
    "python-mpich": ("python", "mpich"),
}


def read(path):
    return json.loads(Path(path).read_text())


def write(program, path):
    Path(path).write_text(text_of(program))


def text_of(program):
    """As JSON, with a step on each line."""
    acts = [text_of_job(act["job"]) if "job" in act else json.dumps(act) for act in program["acts"]]
    rest = json.dumps({key: value for key, value in program.items() if key != "acts"})
    return rest[:-1] + ', "acts": [\n' + ",\n".join(acts) + "\n]}\n"


def text_of_job(job):
    rest = json.dumps({key: value for key, value in job.items() if key != "steps"})
    steps = ",\n".join("  " + json.dumps(step) for step in job["steps"])
    return f'{{"job": {rest[:-1]}, "steps": [\n{steps}]}}}}'


def ranks_of(step, job):
    return step.get("ranks", range(job["ranks"]))


def words_of(step, rank):
    return step["each"][rank] if "each" in step else step.get("words", [])


def nodes_of(job):
    """The nodes of a job, ascending."""
    return sorted(set(job["nodes"]))


def has_deaths(job):
    return any(step["call"] in ("die", "alarm", "leave") for step in job["steps"])
