"""Rows about settings and arguments."""

import os
import re
from pathlib import Path

from .stage import refused_call, scenario


@scenario
def option_out_of_range(stage):
    wrong = ["keep=1001", "pool_bytes=4096", f"pool_bytes={(1 << 64) - 1}"]
    commands = [command for one in wrong for command in ("set:none=0", f"set:{one}", "open")]
    stage.check(stage.run(*commands), times=len(wrong))


@scenario
def time_out_of_range(stage):
    wrong = [f"every_seconds={time}" for time in ("nan", "inf", "-inf", "-1", "1e-9", "1e10")]
    commands = [command for one in wrong for command in ("set:none=0", f"set:{one}", "open")]
    stage.check(stage.run(*commands), times=len(wrong))


@scenario
def setting_refused(stage):
    """The options stay as they were: the space opens."""
    wrong = ["io_threads=65", "chunk_bytes=4095", "chunk_bytes=6000", f"chunk_bytes={(1 << 30) + 4096}"]
    wrong += ["portion_bytes=1", f"portion_bytes={(1 << 20) - 1}", f"portion_bytes={(1 << 64) - 1}"]
    wrong += ["small_bytes=65537", "threshold_bytes=4095", f"threshold_bytes={(1 << 30) + 1}"]
    wrong += ["buffer_bytes=4095", "buffer_bytes=6000", f"buffer_bytes={(1 << 30) + 4096}"]
    wrong += [f"flush_seconds={time}" for time in ("nan", "inf", "-1", "0.0009", "60.001")]
    wrong += [f"mtbf_seconds={time}" for time in ("nan", "inf", "-inf", "-1", "1e-9", "1e10")]
    wrong += [f"{key}=77" for key in ("pool_held", "per", "allocate", "start", "recovery", "capture", "compress")]
    wrong += ["memory_keep=-1", "memory_keep=three"]
    said = stage.run(*(f"set:{one}" for one in wrong), "open", "save:1", "close")
    stage.check(said, times=len(wrong))
    assert [one.status for one in said if one.call == "checkpoint"] == ["OK"]


@scenario
def setting_misspelt(stage):
    stage.check(stage.run("set:kep=3"))


def refused_file(stage, *texts):
    for text in texts:
        (stage.scratch / "mainstay.toml").write_text(text)
        stage.refused()


@scenario
def setting_unknown(stage):
    refused_file(stage, "\nkep = 3", "keep = 3\n[kep]\nkeep = 3")


@scenario
def setting_ill_typed(stage):
    refused_file(stage, "\nkeep = '3'", "\n[keep]\nvalue = 3")


@scenario
def settings_no_toml(stage):
    refused_file(stage, "\nkeep = three")


@scenario
def settings_no_file(stage):
    file = stage.scratch / "mainstay.toml"
    os.mkfifo(file)
    stage.refused()
    file.unlink()
    file.mkdir()
    stage.refused()


@scenario
def settings_file_missing(stage):
    stage.refused(variables={"MAINSTAY_CONFIG": "missing.toml"})


@scenario
def variable_out_of_range(stage):
    stage.refused(variables={"MAINSTAY_KEEP": "1001"})


@scenario
def variable_misspelt(stage):
    """It counted for nothing: the job ran for hours without a checkpoint."""
    stage.refused(variables={"MAINSTAY_EVERY_SECOND": "10"})


@scenario
def settings_differ(stage):
    stage.save()
    stage.refused("@1:set:keep=2", "open")
    stage.comes_back(2)


@scenario
def options_of_another_size(stage):
    stage.check(stage.run("set:size=0", "open", "set:size=8", "open", "set:size=4096", "open"), times=3)


@scenario
def stage_unknown(stage):
    stage.refused("set:stage=77", "open")


def told_at(stage, said, *calls):
    """Each rank got the error at its call, and at no other."""
    told = [one for one in said if one.status != "OK" and one.call != "restored"]
    assert sorted((one.rank, one.call) for one in told) == sorted(calls), said
    for one in told:
        stage.check_one(one)


@scenario
def calls_differ(stage):
    # Both are in it, and know it: the job goes on.
    said = stage.run("open", "restore", "save:1", "@0:save:2", "@1:wait", "save:3", "wait", "close")
    told_at(stage, said, (0, "checkpoint"), (1, "wait"))
    stage.comes_back(3)


@scenario
def level_unknown(stage):
    stage.check(stage.run("open", "save:1", "level:scratch", "level:pfs", "level:Memory", "level:", "close"), times=3)
    stage.comes_back(1)
    # Only one rank has the wrong name: all get the error.
    for one in stage.check(stage.run("open", "restore", "@0:level:scratch", "@1:level:pfs", "close")):
        assert one.rank == 0 or one.text.startswith("on rank 0: "), one


@scenario
def level_not_there(stage):
    stage.check(stage.run("open", "save:1", "level:disk", "level:pfs", "close"))
    stage.comes_back(1)


@scenario
def levels_differ(stage):
    memory = {"MAINSTAY_MEMORY": str(stage.scratch / "memory")}
    stage.check(stage.run("open", "save:1", "@0:level:memory", "@1:level:pfs", "close", variables=memory))
    stage.comes_back(1)


@scenario
def closed_beside_a_call(stage):
    said = stage.run("open", "save:1", "wait", "@0:save:2", "@1:close", "@0:wait", "@0:close")
    told_at(stage, said, (0, "checkpoint"), (1, "close"), (0, "wait"), (0, "close"))
    stage.comes_back(1)


@scenario
def closed_after_mpi(stage):
    stage.check(stage.run("open", "save:1", "wait", "finalize", "close"))
    stage.comes_back(1)


@scenario
def not_restored(stage):
    stage.save()
    stage.check(stage.run("open", "save:3", "close"))
    stage.comes_back(2)
    stage.good(stage.run("set:start=fresh", "open", "save:4", "close"))
    stage.comes_back(4)


@scenario
def spares_take_all(stage):
    stage.check(stage.run("open", variables={"MAINSTAY_RECOVERY": "replace", "MAINSTAY_SPARES": "2"}))


@scenario
def group_incomplete(stage):
    stage.check(stage.run("group:incomplete"), times=3)


@scenario
def group_of_another_size(stage):
    stage.refused("group:size")


@scenario
def null_pointer(stage):
    said = stage.run("open", "nulls", "save:1", "wait", "restore", "holds:1", "close")
    told = [one for one in said if one.status not in ("OK", "1")]
    header = (Path(__file__).parents[2] / "capi" / "include" / "mainstay.h").read_text()
    declared = set(re.findall(r"^[\w ]+[ *]mainstay_(\w+)\(", header, re.M)) - {"error_message", "status_name"}
    # These take NULL.
    declared -= {"reader_revision", "reader_shards", "reader_items", "reader_close", "group_context", "process_unwatch"}
    # These take NULL as malloc and its like do.
    declared -= {one for one in declared if one.startswith("heap_")}
    # These are for adapters, and take settings or memory of their own.
    declared -= {"recovery_settings", "adapter_error"}
    declared -= {one for one in declared if one.startswith(("process_", "launch_"))}
    assert {one.call.partition("(")[0] for one in told} == declared, "functions that were not tried, or do not exist"
    for one in told:
        stage.check_one(one)


@scenario
def name_odd(stage):
    names = ["a b", "ä", "a\n", "a\\b", "tab\t", "💾"]
    refused_call(stage, *(f"protect:{name}" for name in names), times=len(names))


@scenario
def name_empty(stage):
    refused_call(stage, "protect:")


@scenario
def name_long(stage):
    refused_call(stage, "protect:" + "x" * 201)


@scenario
def name_leaves_its_folder(stage):
    refused_call(stage, "protect:a/../b")


@scenario
def name_is_no_text(stage):
    refused_call(stage, os.fsdecode(b"protect:a\xff\xfe"))


@scenario
def name_twice(stage):
    refused_call(stage, "protect:field")


@scenario
def memory_of_another(stage):
    """It was saved under both names, and a restore filled it with both."""
    refused_call(stage, "overlap:twin")


@scenario
def name_unknown(stage):
    refused_call(stage, "unprotect:nothing")


@scenario
def settled_unknown(stage):
    refused_call(stage, "settled:nothing")


@scenario
def settled_outside(stage):
    # The second range ends below where it begins.
    refused_call(stage, "settled:step", "settled_last:step", times=2)


@scenario
def memory_allocated_twice(stage):
    refused_call(stage, "alloc:m7", "alloc:m7", "free:m7")


@scenario
def memory_at_a_taken_address(stage):
    # The two names have the same address.
    refused_call(stage, "alloc:m947", "alloc:m1655", "free:m947")


@scenario
def memory_never_allocated(stage):
    refused_call(stage, "free:nothing")


@scenario
def memory_with_a_protected_part(stage):
    refused_call(stage, "alloc:m7", "unprotect:m7", "part:m7/part", "free:m7", "unprotect:m7/part", "free:m7")


@scenario
def memory_flags_unknown(stage):
    refused_call(stage, "odd:flags")


@scenario
def shape_overflows(stage):
    refused_call(stage, "odd:shape")


@scenario
def box_outside(stage):
    refused_call(stage, "box:6:4:7")


@scenario
def too_many_dimensions(stage):
    refused_call(stage, "odd:dimensions")


@scenario
def type_unknown(stage):
    refused_call(stage, "odd:type")
