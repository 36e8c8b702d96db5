"""Rows about saving."""

import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from staged import pool_directory

from .stage import scenario


def failed_save(stage, what, *tell, set_up=(), told=1, variables=None, **inject):
    """Revision 1 is saved. Then a fault comes and goes, and revision 3 is saved."""
    fault = stage.scratch / "fault"
    inject = ({"rank": stage.row["rank"]} if "rank" in stage.row else {}) | inject
    begin = [*set_up, "open", "save:1", "wait", f"make:{fault}", "save:2"]
    end = ["holds:2", f"remove:{fault}", "save:3", "wait", "close"]
    said = stage.run(*begin, *tell, *end, what=what, when=fault, variables=variables, **inject)
    # The failing rank may know of its failure before the saving call returns.
    early = [one for one in said if one.call == "checkpoint" and one.status != "OK"]
    if stage.row["call"] != "checkpoint":
        assert all(one.rank == stage.row.get("rank", 0) for one in early), early
        stage.check(said, times=told)
    assert [one.status for one in said if one.call == "close"] == ["OK"] * stage.ranks, said
    stage.comes_back(3)
    return said


@scenario
def disk_full_at_write(stage):
    failed_save(stage, "write:ENOSPC", "wait")


@scenario
def io_error_at_write(stage):
    failed_save(stage, "write:EIO", "wait")


@scenario
def io_error_without_pool(stage):
    failed_save(stage, "write:EIO", "wait", set_up=["set:stage=2"])


# The field is written directly, or is gathered first.
NODE = (["set:stage=3", "set:threshold_bytes=4096"], ["set:stage=3", f"set:threshold_bytes={1 << 20}"])
RANK = (["set:stage=4", "set:threshold_bytes=4096"], ["set:stage=4", f"set:threshold_bytes={1 << 20}"])


def failed_saves(stage, what, settings):
    for set_up in settings:
        failed_save(stage, what, "wait", set_up=set_up)
        shutil.rmtree(stage.space)


@scenario
def io_error_of_node(stage):
    failed_saves(stage, "write:EIO", NODE)


@scenario
def io_error_of_rank(stage):
    failed_saves(stage, "write:EIO", RANK)


@scenario
def disk_full_of_node(stage):
    failed_saves(stage, "write:ENOSPC", NODE)


@scenario
def disk_full_of_rank(stage):
    failed_saves(stage, "write:ENOSPC", RANK)


@contextmanager
def staged(stage, rank, more):
    """Revision 2 is staged, and nothing of it is written, when a rank is killed: mpiexec ends the others. Returns the
    settings that a start needs to find it."""
    held = stage.scratch / "held"
    with pool_directory() as pools:
        # Open MPI's own segments are removed with the folder, even if processes are killed.
        segments = {"OMPI_MCA_btl_sm_backing_directory": str(stage.scratch)}
        variables = more | segments | {"MAINSTAY_POOL_DIRECTORY": str(pools)}
        begin = ["open", "save:1", "wait", f"make:{held}", "save:2", "meet"]
        inject = {"what": "write:hold", "when": held}
        done, said = stage.ended(*begin, f"@{rank}:die", "wait", variables=variables, **inject)
        assert done.returncode != 0 and not any(one.call == "end" for one in said), done.stdout
        held.unlink()
        yield variables


@scenario
def rank_killed_when_staged(stage):
    with staged(stage, stage.row["rank"], {}) as variables:
        stage.good(stage.run("open", "restore", "holds:2", "save:3", "close", variables=variables))
    stage.comes_back(3)


def not_completed(stage, what):
    """Every start with the fault is refused. The first start without it has the staged revision."""
    with staged(stage, 0, {}) as variables:
        (pool,) = (path for path in Path(variables["MAINSTAY_POOL_DIRECTORY"]).iterdir() if "." not in path.name)
        for _ in range(2):
            told = stage.check(stage.run("open", what=what, variables=variables))
            assert all(one.call == "open" and f"remove {pool} " in one.text for one in told), told
        stage.good(stage.run("open", "restore", "holds:2", "save:3", "close", variables=variables))
        assert not pool.exists()
    stage.comes_back(3)


@scenario
def file_out_of_sight_at_completion(stage):
    with staged(stage, 0, {"MAINSTAY_PER": "rank"}) as variables:
        (file,) = stage.space.glob("layout-*-000001-*")
        away = file.rename(stage.scratch / "away")
        for _ in range(2):
            told = stage.check(stage.run("open", variables=variables))
            assert all(one.call == "open" for one in told), told
        away.rename(file)
        stage.good(stage.run("open", "restore", "holds:2", "save:3", "close", variables=variables))
    stage.comes_back(3)


def without_its_record(stage, harm):
    """Rank 1 loses its staged data, and every rank reports it once."""
    with staged(stage, 0, {"MAINSTAY_PER": "rank"}) as variables:
        pools = Path(variables["MAINSTAY_POOL_DIRECTORY"])
        (record,) = pools.glob("*.1")
        harm(record)
        said = stage.run("open", "restore", "holds:1", "save:3", "close", variables=variables)
        stage.good(said)
        stage.check_report(said)
        assert not list(pools.iterdir())
    stage.comes_back(3)


@scenario
def record_damaged_at_completion(stage):
    def flip(record):
        changed = bytearray(record.read_bytes())
        changed[1024 + 33] ^= 1
        record.write_bytes(changed)

    without_its_record(stage, flip)


@scenario
def record_of_another_mode_at_completion(stage):
    with staged(stage, 0, {"MAINSTAY_PER": "rank"}) as variables:
        (record,) = Path(variables["MAINSTAY_POOL_DIRECTORY"]).glob("*.1")
        record.chmod(0o640)
        for _ in range(2):
            told = stage.check(stage.run("open", variables=variables))
            assert all(one.call == "open" for one in told), told
        record.chmod(0o600)
        stage.good(stage.run("open", "restore", "holds:2", "save:3", "close", variables=variables))
    stage.comes_back(3)


@scenario
def record_gone_at_completion(stage):
    without_its_record(stage, Path.unlink)


@scenario
def disk_full_at_completion(stage):
    not_completed(stage, "write:ENOSPC")


@scenario
def io_error_at_completion(stage):
    not_completed(stage, "write:EIO")


@scenario
def sync_fails_at_completion(stage):
    not_completed(stage, "sync:EIO")


@scenario
def io_error_told_by_poll(stage):
    said = failed_save(stage, "write:EIO", "poll", "wait")
    assert [one.status for one in said if one.call == "wait"] == ["OK", "IO", "OK"], said


@scenario
def io_error_not_asked_for(stage):
    # The second call returns the error of the first revision, and saves nothing.
    said = failed_save(stage, "write:EIO", "save:2")
    for rank in range(stage.ranks):
        first, second, third, fourth = [one for one in said if one.call == "checkpoint" and one.rank == rank]
        assert (first.status, fourth.status) == ("OK", "OK")
        stage.check_one(third)
        assert second.status == "OK" or rank == stage.row["rank"], second


@scenario
def io_error_told_at_close(stage):
    fault = stage.scratch / "fault"
    commands = ["open", "save:1", "wait", f"make:{fault}", "save:2", "close"]
    stage.check(stage.run(*commands, what="write:EIO", when=fault, rank=1))
    stage.comes_back(1)


@scenario
def disk_full_at_close(stage):
    fault = stage.scratch / "fault"
    commands = ["open", "save:1", "wait", f"make:{fault}", "close"]
    stage.good(stage.run(*commands, what="write:ENOSPC", when=fault))
    stage.comes_back(1)


def failed_sync(stage):
    fault = stage.scratch / "fault"
    begin = ["open", "save:1", "wait", f"make:{fault}", "save:2", "wait", f"remove:{fault}"]
    said = stage.run(*begin, "save:3", "holds:3", "save:3", "close", what="sync:EIO", when=fault, rank=1)
    stage.comes_back(1)
    return said


@scenario
def sync_fails(stage):
    said = failed_sync(stage)
    for rank in range(stage.ranks):
        _, wait = [one for one in said if one.call == "wait" and one.rank == rank]
        stage.check_one(wait)


@scenario
def sync_failed_before(stage):
    said = failed_sync(stage)
    for rank in range(stage.ranks):
        *_, third, fourth = [one for one in said if one.call == "checkpoint" and one.rank == rank]
        stage.check_one(third)
        stage.check_one(fourth)


@scenario
def portion_too_small(stage):
    grown = ["@1:grow", "fill:1"]
    stage.good(stage.run("open", "save:1", "close"))
    # It keeps the existing portions.
    opened = [f"set:portion_bytes={1 << 20}", "open", "restore"]
    said = stage.run(*opened, *grown, "save:2", "holds:2", "@1:unprotect:grown", "save:3", "close")
    told = stage.check(said)
    for one in told:
        needed, available = map(int, re.search(r"needs (\d+) bytes, (\d+) are available", one.text).groups())
        assert needed >= 1_600_000 + 400_000 and 0 < available < needed, one
    stage.comes_back(3)


@scenario
def first_shard_too_large(stage):
    said = stage.run(f"set:portion_bytes={3 << 20}", "open", "grow", "save:1", "holds:1", "restore", "holds:1", "close")
    (told,) = stage.check(said)
    needed, room = map(int, re.search(r"needs (\d+) bytes.* a portion of (\d+) bytes", told.text).groups())
    # The two slots take 128 KiB, minus the catalogues and the rounding of the portion.
    assert 3 << 20 < 2 * needed < room - (128 << 10) < 2 * needed + (128 << 10), told
    shutil.rmtree(stage.space)
    saves = ["save:1", "save:2", "unprotect:grown", "save:3"]
    stage.good(stage.run(f"set:portion_bytes={room}", "open", "grow", *saves, "close"))
    stage.comes_back(3)


def own_disk(stage, megabytes, folder=None):
    """A small file system for the space, or for `folder`. Only the job sees it."""
    folder = folder or stage.space
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("a file system of its own needs root and the right to mount")
    folder.mkdir()
    script = f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" && '
    return lambda more: ["unshare", "-m", "sh", "-euc", script + more, folder]


@scenario
def disk_full_at_layout(stage):
    ballast = stage.space / "ballast"
    within = own_disk(stage, 8)(f'head -c 6M /dev/zero > {ballast}; exec "$@"')
    commands = ["open", "save:1", "holds:1", f"remove:{ballast}", "save:2", "wait", "restore", "holds:2", "close"]
    # This file system is in memory. Each rank checks by itself: its control group may allow less than the free memory.
    stage.row = {key: value for key, value in stage.row.items() if key != "rank"}
    for number in (1, 2, 3, 4):
        for one in stage.check(stage.run(f"set:stage={number}", *commands, within=within)):
            assert one.text.startswith("no room"), one
            wanted, free = map(int, re.search(r"(\d+) bytes were to go there, (\d+) are free", one.text).groups())
            # Three shards for each rank, and the files beside them; the ballast left 2 MiB.
            assert wanted > stage.ranks * 3 * 400_000 and 1 << 20 < free <= 2 << 20, one


@scenario
def reserved_room_was_never_there(stage):
    # Sparse: the file system never had room for this portion.
    within = own_disk(stage, 8)('exec "$@"')
    ballast = stage.space / "ballast"
    begin = ["set:allocate=sparse", f"set:portion_bytes={64 << 20}", "open", "save:1", "wait", f"ballast:{ballast}"]
    end = ["save:2", "wait", "holds:2", f"remove:{ballast}", "restore", "holds:1", "save:3", "wait", "close"]
    said = stage.run(*begin, *end, within=within)
    early = [one for one in said if one.call == "checkpoint" and one.status != "OK"]
    stage.check([one for one in said if one not in early])
    assert [one.status for one in said if one.call == "wait"].count("OK") == 2 * stage.ranks, said


def full_memory(stage, *before):
    """A pool's own directory becomes full after the opening, and later empty again."""
    stage.save()
    pools = stage.scratch / "pools"
    within = own_disk(stage, 8, pools)('exec "$@"')
    ballast = pools / "ballast"
    commands = [
        f"set:pool_bytes={4 << 20}",
        f"set:chunk_bytes={64 << 10}",
        *before,
        f"ballast:{ballast}",
        "save:4",
        "wait",
        "holds:4",
    ]
    commands += [f"remove:{ballast}", "save:5", "wait", "close"]
    said = stage.run(*commands, within=within, variables={"MAINSTAY_POOL_DIRECTORY": str(pools)})
    stage.check(said)
    assert [one.status for one in said if one.call == "wait"][-1] == "OK", said
    stage.comes_back(5)


@scenario
def shm_fills_up(stage):
    # No restore before: after a restore a thread makes the memory, before or after the ballast.
    full_memory(stage, "set:start=fresh", "open")


@scenario
def shm_fills_up_for_checkpoints(stage):
    # Its record has memory since the first checkpoint; its chunks have none between two checkpoints.
    full_memory(stage, "set:pool_held=checkpoint", "open", "restore", "save:3", "wait")


@scenario
def disk_full_at_restore(stage):
    # Saves, fills the disk to its last block, and restores.
    save = f"{stage.program} --solo {stage.space} open save:1 wait save:2 close"
    fill = f"head -c 8M /dev/zero > {stage.space}/ballast 2>/dev/null && exit 3"
    within = own_disk(stage, 4)(f'{save} >/dev/null; {fill}; exec "$@"')
    said = stage.run("open", "restore", "holds:2", "save:3", "wait", "restore", "holds:3", "close", within=within)
    stage.good(said)


@scenario
def short_writes(stage):
    stage.good(stage.run("open", "save:1", "wait", "save:2", "close", what="write:short"))
    stage.comes_back(2)


@scenario
def short_reads(stage):
    stage.save()
    stage.comes_back(2, what="read:short")
