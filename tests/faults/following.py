"""Rows about regions that are moved, or follow a pointer."""

import shutil

from .stage import refused_call, scenario


@scenario
def move_unknown(stage):
    refused_call(stage, "move:nothing")


@scenario
def move_of_another_type(stage):
    refused_call(stage, "odd:moved")


@scenario
def follow_elsewhere(stage):
    refused_call(stage, "odd:elsewhere")


def refused_where(stage, pointer, *refused):
    """On rank 1 `pointer` is where the region is not; once it is back all is well."""
    begin = ["open", "follow:cur", "save:1", "wait", f"@1:point:{pointer}"]
    end = ["point:back", "unprotect:cur", "save:3", "wait", "close"]
    stage.check(stage.run(*begin, *refused, *end))
    stage.comes_back(3)


@scenario
def pointer_null(stage):
    refused_where(stage, "null", "save:2", "holds:2")


@scenario
def pointer_null_at_restore(stage):
    refused_where(stage, "null", "fill:50", "restore", "holds:50")


@scenario
def pointers_to_the_same(stage):
    refused_where(stage, "field", "fill:50", "restore", "holds:50")


@scenario
def given_no_buffer(stage):
    refused_where(stage, "null", "save:2", "holds:2")
    shutil.rmtree(stage.space)
    refused_where(stage, "error", "save:2", "holds:2")
