"""Rows about objects that move; one of them does something wrong, and every rank is told."""

from .stage import scenario


def goes_wrong(stage, how, times=1):
    """The call of the row alone is refused, and the job, and one that comes after, can save all the same."""
    stage.good(stage.run("open", "objects:nothing", "close"))
    told = stage.check(stage.run("open", f"objects:{how}", "close"), times=times)
    assert all(one.call == stage.row["call"] for one in told), told
    stage.good(stage.run("open", "objects:nothing", "close"))


@scenario
def object_packs_more(stage):
    goes_wrong(stage, "packs")


@scenario
def object_grows(stage):
    goes_wrong(stage, "grows")


@scenario
def object_unpacks_less(stage):
    goes_wrong(stage, "unpacks")


@scenario
def object_of_unknown_kind(stage):
    goes_wrong(stage, "unknown")


@scenario
def object_sends_nowhere(stage):
    goes_wrong(stage, "nowhere")


@scenario
def object_handler_fails(stage):
    goes_wrong(stage, "fails")


@scenario
def object_handler_reenters(stage):
    goes_wrong(stage, "reenters")


@scenario
def object_made_twice(stage):
    """Nothing is there yet: else the rank that makes it would know."""
    told = stage.check(stage.run("open", "objects:twice", "close"))
    assert all(one.call == "step" for one in told), told
    stage.good(stage.run("open", "objects:nothing", "close"))


@scenario
def objects_leave_all_ranks(stage):
    goes_wrong(stage, "leaves_all")


@scenario
def objects_strategy_unknown(stage):
    goes_wrong(stage, "strategy")
