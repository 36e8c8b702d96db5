"""Rows about restoring."""

from layout import BLOCK, Layout

from .stage import scenario


def passed_over(stage, step, change):
    """With the changed layout the job restores `step`, gets the reason, and goes on."""
    stage.save()
    changed(stage, step, change)


def changed(stage, step, change):
    layout = Layout(stage.space)
    change(layout)
    layout.write()
    said = stage.run("open", "restore", f"holds:{step}", "save:5", "close")
    stage.good(said)
    assert [one.status for one in said if one.call == "restored"] == [str(step)] * stage.ranks
    stage.check_report(said)
    stage.comes_back(5)


def lost(stage, change):
    """With the changed layout nothing can be restored. The job may still save new revisions."""
    stage.save()
    layout = Layout(stage.space)
    change(layout)
    layout.write()
    stage.check(stage.run("open", "restore", "save:6", "wait", "close"))
    stage.comes_back(6)


@scenario
def file_cut_short(stage):
    lost(stage, lambda layout: layout.bytes.__delitem__(slice(2 * BLOCK, None)))


@scenario
def both_slots_destroyed(stage):
    lost(stage, lambda layout: [layout.flip(at) for at in (layout.slot(0, 0), layout.slot(0, 1))])


@scenario
def all_data_changed(stage):
    lost(stage, lambda layout: [layout.flip(layout.data(0, revision)) for revision in (1, 2)])


@scenario
def slot_changed(stage):
    passed_over(stage, 2, lambda layout: layout.flip(layout.newest_slot(0) + 100))


@scenario
def catalogue_changed(stage):
    passed_over(stage, 2, lambda layout: layout.flip(layout.catalogue(0) + 20))


@scenario
def manifest_changed(stage):
    passed_over(stage, 1, lambda layout: layout.flip(layout.manifest(0, 2) + 70))


@scenario
def hashes_changed(stage):
    passed_over(stage, 1, lambda layout: layout.flip(layout.hashes(0, 2) + 33))


@scenario
def data_changed(stage):
    passed_over(stage, 1, lambda layout: layout.flip(layout.data(1, 2) + 200_000))


@scenario
def frame_changed(stage):
    saves = ["open", "save:1", "wait", "save:2", "wait", "close"]
    stage.good(stage.run(*saves, variables={"MAINSTAY_COMPRESS": "zstd"}))

    def change(layout):
        at = layout.data(0, 2)
        assert layout.bytes[at : at + 8] == b"MSTYFRAM"
        layout.flip(at)

    changed(stage, 1, change)


@scenario
def io_error_at_read(stage):
    stage.save()
    fault = stage.scratch / "fault"
    commands = ["open", f"make:{fault}", "restore", f"remove:{fault}", "restore", "holds:2", "close"]
    stage.check(stage.run(*commands, what="read:EIO", when=fault))
    stage.comes_back(2)


def failing_reads(stage, reads, step):
    """Reads fail in a job that then restores `step`."""
    stage.save()
    fault = stage.scratch / "fault"
    commands = ["open", f"make:{fault}", "restore", f"holds:{step}", "save:5", "close"]
    said = stage.run(*commands, what=f"read:EIO:0:{reads}", when=fault)
    stage.good(said)
    told = [one for one in said if one.call == "restored"]
    assert [one.status for one in told] == [str(step)] * stage.ranks
    if step == 2:
        assert not any(one.text.strip() for one in told), told
    else:
        stage.check_report(said)
    stage.comes_back(5)


@scenario
def io_error_passes_at_read(stage):
    failing_reads(stage, 2, 2)


@scenario
def io_error_of_newest(stage):
    # The first read of a revision is its manifest.
    failing_reads(stage, 4, 1)


def refused_restore(stage, *change):
    """The restore is refused, memory is unchanged, and a correct job restores."""
    stage.save(ranks=2 if stage.row["status"] == "RANK_COUNT" else None)
    stage.check(stage.run("open", "fill:50", *change, "restore", "holds:50", "close"))
    stage.comes_back(2, ranks=2 if stage.row["status"] == "RANK_COUNT" else None)


def saved_with_output(stage):
    """Revision 1 records 4 bytes of each rank's output file, which has 8."""
    saved = ["open", "output", "append:one\n", "save:1", "wait", "append:two\n", "close"]
    stage.good(stage.run(*saved))


@scenario
def output_shorter(stage):
    saved_with_output(stage)
    back = ["open", "output", "fill:50", "@1:cut:3", "restore", "holds:50", "@0:output_is:one\ntwo\n", "close"]
    stage.check(stage.run(*back))
    # A job that does not name the file can restore; a job that repairs the file can, too.
    stage.good(stage.run("open", "restore", "holds:1", "@1:output_is:one", "@0:output_is:one\ntwo\n", "close"))
    back = ["open", "@1:append:\nmore", "output", "restore", "holds:1", "output_is:one\n", "close"]
    stage.good(stage.run(*back))


@scenario
def output_is_no_file(stage):
    stage.check(stage.run("open", "output:/dev/null", "output:/", "save:1", "close"), times=2)
    stage.comes_back(1)


@scenario
def output_sync_fails(stage):
    saved_with_output(stage)
    said = stage.run(
        "open", "output", "restore", "append:more", "save:2", "wait", "holds:2", "close",
        what="sync:EIO:0:1", files="/output-", rank=1,
    )  # fmt: skip
    stage.check(said)
    # The record of the failed revision does not count.
    stage.good(stage.run("open", "output", "restore", "holds:1", "output_is:one\n", "save:3", "wait", "close"))


@scenario
def region_of_another_size(stage):
    refused_restore(stage, "change:size")


@scenario
def region_of_another_type(stage):
    refused_restore(stage, "change:type")


@scenario
def region_of_another_shape(stage):
    refused_restore(stage, "change:shape")


@scenario
def region_not_protected(stage):
    refused_restore(stage, "@1:change:gone")


@scenario
def region_not_saved(stage):
    refused_restore(stage, "protect:more")


@scenario
def more_ranks(stage):
    refused_restore(stage)


@scenario
def fewer_ranks(stage):
    refused_restore(stage)


SAVED = ["@0:box:6:0:2", "@1:box:6:3:6"]  # nobody has row 2


def other_boxes(stage, *boxes):
    """A job with other boxes is refused with unchanged memory. A job with the saved boxes restores."""
    stage.good(stage.run("open", *SAVED, "save:1", "wait", "close"))
    stage.check(stage.run("open", "fill:50", *boxes, "restore", "holds:50", "close"))
    stage.good(stage.run("open", *SAVED, "restore", "holds:1", "save:2", "close"))


@scenario
def box_not_saved(stage):
    other_boxes(stage, "@0:box:6:0:3", "@1:box:6:3:6")


@scenario
def global_array_of_another_shape(stage):
    other_boxes(stage, "@0:box:7:0:2", "@1:box:7:3:6")


@scenario
def reader_of_no_revision(stage):
    stage.save()
    stage.check(stage.run("read:7"))
    stage.good(stage.run("read:2", "read:0"))


@scenario
def globals_of_another_program(stage):
    stage.good(stage.run("open", "globals", "foreign", "save:1", "wait", "close"))
    stage.check(stage.run("open", "globals", "fill:50", "restore", "holds:50", "close"))


@scenario
def left_out_too_late(stage):
    stage.check(stage.run("open", "globals", "leave_out", "save:2", "wait", "close"))
    stage.good(stage.run("open", "globals", "restore", "holds:2", "save:3", "close"))
