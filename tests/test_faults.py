"""The fault table, tests/faults.toml, staged in C and in Python: a scenario for every row, by name.

Each runs c/faults.c or python/faults.py, which makes the calls that it is given, and checks what is told at which call,
that the program's memory is as it was, that earlier revisions come back bit for bit, and that the job
can go on when the fault is gone.
"""

import fcntl
import os
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from layout import BLOCK, Layout
from mpi import OPENMPI
from programs import build_c, build_python

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

LIMIT_S = 60
NOBODY = 65534
LINE = re.compile(r"^= (\d+) (\S+) (\S+) (.*)$", re.M)
LANGUAGES = ("c", "python")
ROWS = {row["name"]: row for row in tomllib.loads((Path(__file__).parent / "faults.toml").read_text())["row"]}
SCENARIOS = {}


def scenario(function):
    """Stages the row of the function's name."""
    SCENARIOS[function.__name__] = function
    return function


@dataclass
class Said:
    rank: int
    call: str
    status: str
    text: str


def ranks_of(row, language):
    """Ranks of the scenario there; 0 if it cannot be staged."""
    return row["c"] if language == "c" else row.get("python", row["c"])


@pytest.fixture(scope="session")
def programs():
    """By language, what makes calls."""
    c = build_c(["faults.c"], "faults", "-Wno-misleading-indentation")
    return {"c": c, "python": build_python("faults.py", "faults-python")}


@pytest.fixture(scope="session")
def shim():
    return build_c(["inject.c"], "inject.so", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def templates():
    """Spaces to copy from."""
    with tempfile.TemporaryDirectory(prefix="mainstay-test-") as folder:
        yield Path(folder)


class Stage:
    """A space, and the row that is staged on it."""

    saved = {}  # by number of ranks

    def __init__(self, row, scratch, program, shim, templates, ranks=None):
        self.row, self.scratch, self.program, self.shim, self.templates = row, scratch, program, shim, templates
        self.space = scratch / "space"
        self.ranks = ranks or row["c"]

    def run(self, *commands, ranks=None, space=None, within=(), variables=None, **inject):
        """What a job was told; it must come to its end on every rank."""
        ranks = ranks or self.ranks
        job = [self.program, "--solo"] if ranks == 1 else self.mpiexec(ranks)
        job = [*within, *job, self.space if space is None else space, *commands]
        done = subprocess.run(
            list(map(str, job)),
            cwd=self.scratch,
            env=self.environment(inject) | (variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
        said = [Said(int(rank), *rest) for rank, *rest in LINE.findall(done.stdout)]
        assert done.returncode == 0, done.stdout
        assert "WRONG" not in done.stdout and "INTERNAL" not in done.stdout, done.stdout
        assert sum(one.call == "end" for one in said) == ranks, done.stdout
        return said

    def mpiexec(self, ranks):
        return OPENMPI.mpiexec(ranks, [self.program])

    def environment(self, inject):
        """With the shim before libc, if anything is to fail."""
        more = {f"INJECT{'_' + name.upper() if name != 'what' else ''}": str(value) for name, value in inject.items()}
        if inject:
            more |= {"LD_PRELOAD": str(self.shim), "INJECT_SPACE": str(self.space)}
        return OPENMPI.environment(self.scratch) | more

    def save(self, ranks=None):
        """A space in which a job saved the revisions 1 and 2 and ended in order. Saved once, then copied."""
        ranks = ranks or self.ranks
        if ranks not in self.saved:
            self.saved[ranks] = self.templates / str(ranks)
            self.save_anew(self.saved[ranks], ranks)
        shutil.copytree(self.saved[ranks], self.space)
        self.space.chmod(0o700)

    def save_anew(self, space, ranks):
        self.good(self.run("open", "save:1", "wait", "save:2", "wait", "close", ranks=ranks, space=space))

    def comes_back(self, step, ranks=None, **more):
        """A job finds `step`, bit for bit, and can go on; so can the next."""
        first = self.run("open", "restore", f"holds:{step}", "save:20", "close", ranks=ranks, **more)
        self.good(first)
        self.good(self.run("open", "restore", "holds:20", "close", ranks=1) if (ranks or self.ranks) == 1 else first)

    @staticmethod
    def good(said):
        bad = [one for one in said if one.status != "OK" and one.call != "restored"]
        assert not bad, bad

    def check(self, said, call=None, times=1):
        """Every rank was told what the row says, at the call that it says, and at no other."""
        ranks = {one.rank for one in said}
        told = [one for one in said if one.status != "OK" and one.call not in ("restored", "hold")]
        for rank in ranks:
            mine = [one for one in told if one.rank == rank and one.call == (call or self.row["call"])]
            assert len(mine) == times, f"rank {rank} was told {len(mine)} times: {said}"
            for one in mine:
                self.check_one(one)
        return told

    def check_one(self, one):
        assert one.status == self.row["status"], one
        self.check_text(one.text)
        failing = self.row.get("rank", one.rank)
        assert one.rank == failing or one.text.startswith(f"on rank {failing}: "), one

    def check_text(self, text):
        for says in self.row["says"]:
            assert says.replace("{space}", str(self.space)) in text, f"{says!r} is not in {text!r}"

    def check_report(self, said):
        """What a restore passed over was reported."""
        for one in said:
            if one.call == "restored":
                self.check_text(one.text)

    def refused(self, *commands, **more):
        """The opening is refused, and nothing else happens."""
        told = self.check(self.run(*(commands or ["open"]), **more))
        assert all(one.call == "open" for one in told), told


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_fault(name, language, scratch, programs, shim, templates):
    if ranks := ranks_of(ROWS[name], language):
        SCENARIOS[name](Stage(ROWS[name], scratch, programs[language], shim, templates, ranks))


def test_every_row_has_a_scenario_and_every_scenario_a_row():
    assert sorted(SCENARIOS) == sorted(name for name, row in ROWS.items() if any(ranks_of(row, language) for language in LANGUAGES))


# ---- what is opened ----


@scenario
def path_is_a_file(stage):
    stage.space.write_text("mine")
    stage.refused()
    assert stage.space.read_text() == "mine"


@scenario
def path_is_empty(stage):
    stage.refused(space="")


def as_another_user():
    """Root may write everywhere: another user tries."""
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


def refused_while(stage, change):
    """With the layout changed nothing is opened; with the change undone all is there."""
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
            # The holder goes on as if nothing had been.
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
    # What is left of the job: rank 1 and its lock.
    with open(stage.space / "lock", "r+b") as alive:
        fcntl.fcntl(alive, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 1, 1, 0))
        stage.refused()
    stage.comes_back(2)


@scenario
def shm_is_full(stage):
    stage.save()
    stage.refused(f"set:pool={1 << 50}", "open")
    stage.comes_back(2)


@scenario
def io_error_at_open(stage):
    stage.save()
    stage.refused(what="read:EIO", rank=1)
    stage.comes_back(2)


# ---- settings and arguments ----


@scenario
def option_out_of_range(stage):
    wrong = ["keep=1001", "threads=65", "chunk=4095", "chunk=6000", f"chunk={(1 << 30) + 4096}", "pool=4096"]
    wrong += [f"pool={(1 << 64) - 1}", "portion=1", f"portion={(1 << 20) - 1}", f"portion={(1 << 64) - 1}"]
    commands = [command for one in wrong for command in ("set:none=0", f"set:{one}", "open")]
    stage.check(stage.run(*commands), times=len(wrong))


@scenario
def time_out_of_range(stage):
    wrong = [f"{key}={time}" for key in ("every", "mtbf") for time in ("nan", "inf", "-inf", "-1", "1e-9", "1e10")]
    commands = [command for one in wrong for command in ("set:none=0", f"set:{one}", "open")]
    stage.check(stage.run(*commands), times=len(wrong))


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
    header = (Path(__file__).parents[1] / "capi" / "include" / "mainstay.h").read_text()
    declared = set(re.findall(r"^[\w ]+[ *]mainstay_(\w+)\(", header, re.M)) - {"error_message", "status_name"}
    assert {one.call.partition("(")[0] for one in told} == declared, "functions that were not tried, or are none"
    for one in told:
        stage.check_one(one)


def refused_call(stage, *commands, times=1):
    """The call is refused; the job saves and comes back all the same."""
    said = stage.run("open", *commands, "save:1", "wait", "close")
    told = stage.check(said, times=times)
    assert all(one.call == stage.row["call"] for one in told), told
    stage.comes_back(1)


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
def name_unknown(stage):
    refused_call(stage, "unprotect:nothing")


@scenario
def shape_overflows(stage):
    refused_call(stage, "odd:shape")


@scenario
def too_many_dimensions(stage):
    refused_call(stage, "odd:dimensions")


@scenario
def type_unknown(stage):
    refused_call(stage, "odd:type")


# ---- saving ----


def failed_save(stage, what, *tell, set_up=(), told=1):
    """Revision 1 is saved; then a fault comes and goes, and revision 3 is saved."""
    fault = stage.scratch / "fault"
    rank = {"rank": stage.row["rank"]} if "rank" in stage.row else {}
    begin = [*set_up, "open", "save:1", "wait", f"make:{fault}", "save:2"]
    end = ["holds:2", f"remove:{fault}", "save:3", "wait", "close"]
    said = stage.run(*begin, *tell, *end, what=what, when=fault, **rank)
    # The rank that fails may know it already when the call that saves returns.
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


@scenario
def io_error_told_by_poll(stage):
    said = failed_save(stage, "write:EIO", "poll", "wait")
    assert [one.status for one in said if one.call == "wait"] == ["OK", "IO", "OK"], said


@scenario
def io_error_not_asked_for(stage):
    # The second call is told of the first one's revision, and saves nothing.
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
    said = stage.run("open", "save:1", "wait", *grown, "save:2", "holds:2", "@1:unprotect:grown", "save:3", "close")
    told = stage.check(said)
    for one in told:
        needed, available = map(int, re.search(r"needs (\d+) bytes, (\d+) are available", one.text).groups())
        assert needed >= 1_600_000 + 400_000 and 0 < available < needed, one
    stage.comes_back(3)


def own_disk(stage, megabytes):
    """A small file system on the space, which only the job sees."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("a file system of its own needs root and the right to mount")
    stage.space.mkdir()
    script = f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" && '
    return lambda more: ["unshare", "-m", "sh", "-euc", script + more, stage.space]


@scenario
def disk_full_at_layout(stage):
    ballast = stage.space / "ballast"
    within = own_disk(stage, 8)(f'head -c 6M /dev/zero > {ballast}; exec "$@"')
    commands = ["open", "save:1", "holds:1", f"remove:{ballast}", "save:2", "wait", "restore", "holds:2", "close"]
    stage.check(stage.run(*commands, within=within))


@scenario
def disk_full_at_restore(stage):
    # Saves, fills the disk to its last block, and comes back.
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


# ---- coming back ----


def passed_over(stage, step, change):
    """With the layout changed the job comes back to `step`, is told why, and goes on."""
    stage.save()
    layout = Layout(stage.space)
    change(layout)
    layout.write()
    said = stage.run("open", "restore", f"holds:{step}", "save:5", "close")
    stage.good(said)
    assert [one.status for one in said if one.call == "restored"] == [str(step)] * stage.ranks
    stage.check_report(said)
    stage.comes_back(5)


def lost(stage, change):
    """With the layout changed nothing can be restored; the job may still save anew."""
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
def io_error_at_read(stage):
    stage.save()
    fault = stage.scratch / "fault"
    commands = ["open", f"make:{fault}", "restore", f"remove:{fault}", "restore", "holds:2", "close"]
    stage.check(stage.run(*commands, what="read:EIO", when=fault))
    stage.comes_back(2)


def refused_restore(stage, *change):
    """The restore is refused, the memory is as it was, and a job that is right comes back."""
    stage.save(ranks=2 if stage.row["status"] == "RANK_COUNT" else None)
    stage.check(stage.run("open", "fill:50", *change, "restore", "holds:50", "close"))
    stage.comes_back(2, ranks=2 if stage.row["status"] == "RANK_COUNT" else None)


def saved_with_output(stage):
    """Revision 1 knows 4 bytes of each rank's output file, which has 8."""
    saved = ["open", "output", "append:one\n", "save:1", "wait", "append:two\n", "close"]
    stage.good(stage.run(*saved))


@scenario
def output_shorter(stage):
    saved_with_output(stage)
    back = ["open", "output", "fill:50", "@1:cut:3", "restore", "holds:50", "@0:output_is:one\ntwo\n", "close"]
    stage.check(stage.run(*back))
    # Who does not name the file is not asked about it; who mends it comes back.
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
    # What the failed revision would have told of is not believed.
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


# ---- what only Python can be given ----


@scenario
def buffer_not_contiguous(stage):
    refused_call(stage, "odd:strided", times=4)


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


# ---- beside the table ----


def test_the_c_boundary_under_sanitizers(scratch, shim, templates):
    """Addresses, leaks and undefined behaviour, in the program and in what Mainstay does to its memory."""
    program = build_c(
        ["faults.c"], "faults-sanitized", "-Wno-misleading-indentation", "-g",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    )  # fmt: skip
    row = {"name": "sanitizers", "c": 1, "call": "every", "status": "OK", "says": []}
    stage = Stage(row, scratch, program, shim, templates)
    save = ["save:1", "wait", "save:2", "poll", "restore", "holds:2", "close"]
    stage.run("open", "second", "nulls", "odd:shape", "odd:dimensions", "odd:type", "protect:field", *save)
    stage.run("group:incomplete", "group:size", "set:size=8", "open", "set:none=0", "set:stage=77", "open")
    stage.run("set:none=0", "set:stage=2", "open", "change:size", "restore", "change:shape", "restore", "close")
    layout = Layout(stage.space)
    layout.flip(layout.data(0, 2))
    layout.write()
    said = stage.run("open", "restore", "holds:1", "close")
    assert [one.status for one in said if one.call == "restored"] == ["1"]
