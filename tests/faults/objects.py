"""Rows about objects that move. One of them makes a mistake, and every rank gets the error."""

from .stage import scenario


def goes_wrong(stage, how, comes_back=False):
    """The call of the row alone is refused, and a job that comes after saves all the same; `comes_back`: there are objects
    from before."""
    if comes_back:
        stage.good(stage.run("open", "objects:nothing", "close"))
    told = stage.check(stage.run("open", f"objects:{how}", "close"))
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
    goes_wrong(stage, "unknown", comes_back=True)


@scenario
def object_sends_nowhere(stage):
    goes_wrong(stage, "nowhere", comes_back=True)


@scenario
def object_handler_fails(stage):
    goes_wrong(stage, "fails", comes_back=True)


@scenario
def object_handler_reenters(stage):
    goes_wrong(stage, "reenters", comes_back=True)


@scenario
def object_made_twice(stage):
    """Of objects that come back, the rank that makes one once more would know."""
    goes_wrong(stage, "twice")


@scenario
def objects_leave_all_ranks(stage):
    goes_wrong(stage, "leaves_all", comes_back=True)


@scenario
def objects_strategy_unknown(stage):
    goes_wrong(stage, "strategy", comes_back=True)


@scenario
def objects_left_out(stage):
    goes_wrong(stage, "left_out", comes_back=True)
