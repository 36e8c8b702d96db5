"""Plays a program and holds it against the model."""

from . import judge_tools
from .judge import judge_job
from .play import Stage
from .program import nodes_of
from .space import Space
from .verdict import Wrong, demand


def why_wrong(program, commands):
    """The error of the program; None if all is well."""
    with Stage(program, commands) as stage:
        space = Space()
        for number, act in enumerate(program["acts"]):
            try:
                play_act(act, space, stage)
            except Wrong as wrong:
                return f"act {number}: {wrong}"
    return None


def play_act(act, space, stage):
    if "tool" in act:
        judge_tools.judge_tool(space, stage.tool(act["tool"]), stage)
    elif "damage" in act:
        stage.damage(**act["damage"])
        space.damaged = True
    else:
        job = act["job"]
        judge_job(
            space, job, stage.play(job), lambda ended, session: judge_tools.judge_tool(space, ended, stage, session)
        )
        if space.clean and not space.damaged:
            left = [path.name for node in nodes_of(job) for path in stage.pools[node].iterdir()]
            demand(not left, f"a job that ended in order left {left}")
