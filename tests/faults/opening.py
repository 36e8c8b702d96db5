"""Rows about opening a space."""

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from layout import BLOCK, Layout
from mpi import OPENMPI
from ways import WAYS, spread

from .stage import LIMIT_S, scenario

NOBODY = 65534
SOMEBODY = 65533
TWO_NODES = next(way for way in WAYS if way["nodes"] == 2)


@scenario
def path_is_a_file(stage):
    stage.space.write_text("mine")
    stage.refused()
    assert stage.space.read_text() == "mine"


@scenario
def path_is_empty(stage):
    stage.refused(space="")


def as_another_user():
    """Root may write everywhere, so another user tries."""
    return [f"as:{NOBODY}"] if os.geteuid() == 0 else []


@scenario
def parent_not_writable(stage):
    parent = stage.scratch / "parent"
    parent.mkdir()
    parent.chmod(0o555)
    stage.space = parent / "space"
    stage.refused(*as_another_user(), "open")


@scenario
def space_not_writable(stage):
    stage.save()
    stage.space.chmod(0o555)
    stage.refused(*as_another_user(), "open")
    stage.space.chmod(0o700)
    stage.comes_back(2)


@scenario
def layout_is_foreign(stage):
    stage.save()
    foreign = stage.space / "layout-000007-000000.mainstay"
    foreign.write_bytes(b"x" * 9000)
    stage.refused()
    foreign.unlink()
    stage.comes_back(2)


@scenario
def rank_in_two_files(stage):
    stage.save()
    copy = shutil.copy(Layout(stage.space).path, stage.space / "layout-000001-000007-00000000.mainstay")
    stage.refused()
    Path(copy).unlink()
    stage.comes_back(2)


def refused_while(stage, change):
    """With the changed layout nothing is opened. With the change undone, everything is back."""
    stage.save()
    layout = Layout(stage.space)
    whole = bytes(layout.bytes)
    change(layout)
    layout.write()
    stage.refused()
    assert layout.path.read_bytes() == layout.bytes, "a layout that was refused was written to"
    layout.path.write_bytes(whole)
    stage.comes_back(2)


@scenario
def newer_version_or_damage(stage):
    refused_while(stage, lambda layout: layout.bytes.__setitem__(8, 2))


@scenario
def header_cut_short(stage):
    refused_while(stage, lambda layout: layout.bytes.__delitem__(slice(1000, None)))


@scenario
def header_changed(stage):
    refused_while(stage, lambda layout: layout.flip(100))


@scenario
def portion_table_changed(stage):
    refused_while(stage, lambda layout: layout.flip(BLOCK + 9))


@scenario
def made_by_another_user(stage):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    shared = stage.scratch / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    stage.space = shared / "space"
    stage.space.mkdir()
    os.chown(stage.space, SOMEBODY, SOMEBODY)
    stage.refused()
    os.chown(stage.space, 0, 0)
    stage.save_anew(stage.space, stage.ranks)
    stage.comes_back(2)


@scenario
def levels_in_one_directory(stage):
    place = str(stage.scratch / "place")
    stage.refused(variables={"MAINSTAY_MEMORY": place, "MAINSTAY_DISK": place})
    stage.save_anew(stage.space, stage.ranks)
    stage.comes_back(2)


@scenario
def lineage_conflict(stage):
    other = stage.scratch / "other"
    stage.save()
    stage.save_anew(other, 1)
    copy = stage.space / "layout-000002-000000.mainstay"
    copy.write_bytes(bytes(Layout(other).bytes))
    stage.refused()
    copy.unlink()
    stage.comes_back(2)


@scenario
def in_use_by_another_job(stage):
    stage.save()
    with subprocess.Popen(
        [stage.program, "--solo", stage.space, "open", "restore", "holds:2", "hold", "save:3", "close"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            for line in holder.stdout:
                if line.startswith("= 0 hold OK"):
                    break
            stage.refused()
            # The holder goes on undisturbed.
            rest, _ = holder.communicate("", timeout=LIMIT_S)
        finally:
            holder.kill()
    assert "= 0 close OK" in rest, rest
    stage.comes_back(3)


@scenario
def in_use_by_this_program(stage):
    stage.save()
    stage.refused("open", "second", "restore", "holds:2", "close")
    stage.comes_back(2)


@scenario
def in_use_by_a_half_dead_job(stage):
    stage.save()
    # The rest of the job: rank 1 and its lock.
    with open(stage.space / "lock", "r+b") as alive:
        fcntl.fcntl(alive, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 1, 1, 0))
        stage.refused()
    stage.comes_back(2)


@scenario
def lock_read_by_another(stage):
    stage.save()
    with open(stage.space / "lock", "rb") as reader:
        fcntl.fcntl(reader, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 1 << 40, 0))
        stage.refused()
    stage.comes_back(2)


@scenario
def layout_of_an_odd_name(stage):
    stage.save()
    odd = stage.space / "layout-\x1b[31m\x07\n\u202e\u200b.mainstay"
    odd.write_bytes(b"x" * 9000)
    stage.refused()
    odd.unlink()
    stage.comes_back(2)


@scenario
def shm_is_full(stage):
    stage.save()
    stage.refused(f"set:pool_bytes={1 << 50}", "open")
    stage.comes_back(2)


@scenario
def mark_cleared_away(stage):
    stage.save()
    pools = stage.scratch / "pools"
    pools.mkdir()
    there = {"MAINSTAY_POOL_DIRECTORY": str(pools)}
    # Ranks of one node do not need to list the marks.
    stage.mpiexec = lambda ranks: OPENMPI.mpiexec(ranks, spread(TWO_NODES, [stage.program]))
    stage.refused(variables=there, cleared=pools, rank=1)
    assert not list(pools.iterdir())
    # If the directory is cleared now and then, the ranks look again.
    stage.comes_back(2, variables=there, cleared=pools, rank=1, clearings=2)


@scenario
def io_error_at_open(stage):
    stage.save()
    stage.refused(what="read:EIO", rank=1)
    stage.comes_back(2)


@scenario
def layout_file_out_of_sight(stage):
    saved = ("open", "save:1", "wait", "save:2", "wait", "close")
    stage.good(stage.run(*saved, variables={"MAINSTAY_PER": "rank"}))
    (there,) = stage.space.glob("layout-000001-000001-*")
    away = there.rename(stage.scratch / "away")
    stage.refused()
    assert len(list(stage.space.glob("layout-*"))) == 1
    away.rename(there)
    stage.comes_back(2)
