"""Rows about arguments that only Python can pass."""

from .stage import refused_call, scenario


@scenario
def buffer_out_of_order(stage):
    refused_call(stage, "odd:out-of-order", times=4)


@scenario
def buffer_in_fortran_order(stage):
    refused_call(stage, "odd:fortran", times=2)


@scenario
def buffer_read_only(stage):
    refused_call(stage, "odd:read-only", times=4)


@scenario
def buffer_of_objects(stage):
    refused_call(stage, "odd:objects", times=6)


@scenario
def buffer_masked(stage):
    refused_call(stage, "odd:masked", times=2)


@scenario
def buffer_in_other_byte_order(stage):
    refused_call(stage, "odd:swapped", times=3)


@scenario
def no_buffer(stage):
    refused_call(stage, "odd:no-buffer", times=5)


@scenario
def communicator_freed(stage):
    stage.save()
    stage.check(stage.run("comm"), times=5)
    stage.comes_back(2)


@scenario
def keyword_odd(stage):
    stage.check(stage.run("keyword"), times=7)


@scenario
def session_closed(stage):
    refused_call(stage, "ended")


@scenario
def note_odd(stage):
    refused_call(stage, "note", times=4)


@scenario
def note_odd_on_one_rank(stage):
    stage.save()
    stage.check(stage.run("open", "restore", "fill:50", "@0:save:50", "@1:note:one", "holds:50", "save:3", "close"))
    stage.good(stage.run("open", "restore", "holds:3", "close"))
