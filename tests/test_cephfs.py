"""On CephFS, with several mounts and a job over all of them: the cost of a checkpoint for the metadata servers."""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import subprocess
import time

import jobs
import numpy
import pytest
from cephfs import CephFs, missing
from limits import LIMIT_S
from paused import Paused
from mpi import BUILT
from programs import build_c, build_faults
from staged import pool_directory

pytestmark = [pytest.mark.cephfs, pytest.mark.campaign]

MOUNTS = 4
RANKS = 4
LOOK_S = 0.02
STOPPED_S = 2  # less than after what servers think one of them dead
MAINSTAY = BUILT / "mainstay"
MANY = 16  # published as well, and the fewest that it has figures for
FURTHER = 9  # checkpoints, as published
LAZY = "--client_force_lazyio=true"  # ceph-fuse has lazy I/O for whole mounts alone
AFTERWARDS = 77  # what a job that came back saves
STRIPE_BYTES, STRIPES = 1 << 20, 2
MESSAGES_MAX = 10  # capability messages and journal events together, in all of them


@pytest.fixture(scope="module")
def ceph():
    if why := missing():
        pytest.skip(f"no CephFS here: {why}")
    with CephFs(MOUNTS) as made:
        yield made


@pytest.fixture(scope="module")
def lazy(ceph):
    """Mounts with lazy I/O: the number of the first."""
    first = len(ceph.mounts)
    ceph.add_mounts(MOUNTS, LAZY)
    return first


@pytest.fixture(autouse=True)
def pools(monkeypatch):
    """A pools' directory of its own: other Mainstay jobs on this machine would look into these spaces, and be
    counted."""
    with pool_directory() as folder:
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", str(folder))
        yield folder


@pytest.fixture(scope="module")
def faults():
    return build_faults()


@pytest.fixture(scope="module")
def shim():
    return build_c(["inject.c"], "inject.so", "-shared", "-fPIC")


def over_mounts(ceph, ranks, program, space, *commands, mounts=MOUNTS, first=0):
    """The words that run `program` on `ranks` ranks. The mounts from `first` on have equal numbers of ranks; each is a
    node."""
    script = (
        f"node=$((OMPI_COMM_WORLD_RANK * {mounts} / {ranks})) program=$0;"
        f'MAINSTAY_NODE=$node exec "$program" {ceph.home}/mnt.$((node + {first}))/{space} "$@"'
    )
    return ["sh", "-c", script, program, *commands]


def saves(*numbers):
    return [word for number in numbers for word in (f"save:{number}", "wait")]


@contextlib.contextmanager
def nine_counted(jobs_at_once, counters):
    """The total cost of further checkpoints for the metadata servers. The jobs stand still before and after them."""
    for job in jobs_at_once:
        job.until_all("pause")
    before = counters()
    for job in jobs_at_once:
        job.go_on()
        job.until_all("pause")
    yield counters() - before
    for job in jobs_at_once:
        job.go_on()
        job.until_all("end")
        assert {status for _, _, status, _ in job.said} == {"OK"}, job.said


def saves_nine(ceph, faults, scratch, space, ranks, *variables, first=0):
    """A job that saves nine checkpoints, and stands still before and after; the last revision is 10."""
    commands = ["open", *saves(1), "pause", *saves(*range(2, 2 + FURTHER)), "pause", "close"]
    return Paused(ranks, ["env", *variables, *over_mounts(ceph, ranks, faults, space, *commands, first=first)], scratch)


def test_a_checkpoint_asks_the_metadata_server_nothing(ceph, faults, scratch):
    with saves_nine(ceph, faults, scratch, "few", RANKS) as job, nine_counted([job], ceph.counters) as cost:
        # With fewer ranks than published: late reports of the opening are not waited for.
        assert cost["requests"] == 0, cost


def test_nor_do_many_ranks_on_several_mounts(ceph, lazy, faults, scratch):
    """With a file for each node, with one file for all, and with one file for all on mounts with lazy I/O."""
    wanted = [("node", "auto", 0), ("app", "app", 0), ("lazy", "app", lazy)]
    with contextlib.ExitStack() as all_jobs:
        running = [
            all_jobs.enter_context(saves_nine(ceph, faults, scratch, space, MANY, f"MAINSTAY_PER={per}", first=first))
            for space, per, first in wanted
        ]
        with nine_counted(running, ceph.settled_counters) as cost:
            assert cost["requests"] == 0, cost
            assert cost["capability messages"] + cost["journal events"] <= len(wanted) * MESSAGES_MAX, cost
    files = [len(list((ceph.mounts[0] / space).glob("layout-*"))) for space, _, _ in wanted]
    assert files == [MOUNTS, 1, 1], files
    # Each mount keeps its cache. Others still see the saved data, and restore it.
    comes_back(ceph, faults, scratch, "lazy", 1 + FURTHER, ranks=MANY)
    comes_back(ceph, faults, scratch, "lazy", AFTERWARDS, ranks=MANY, first=lazy)


def cached_part(path):
    """The part of a file in this kernel's cache."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        address = numpy.frombuffer(mapped, numpy.uint8).ctypes.data
        pages = numpy.zeros(-(-len(mapped) // mmap.PAGESIZE), numpy.uint8)
        asked = ctypes.CDLL(None, use_errno=True).mincore
        asked.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        assert asked(address, len(mapped), pages.ctypes.data) == 0, os.strerror(ctypes.get_errno())
    return (pages & 1).mean()


def test_what_is_saved_is_not_copied_into_the_kernels_cache(ceph, faults, scratch):
    commands = over_mounts(ceph, RANKS, faults, "uncached", "open", *saves(1), "close")
    status, output = jobs.run(RANKS, commands, scratch)
    assert status == 0, output
    for mount in ceph.mounts[:MOUNTS]:
        for path in (mount / "uncached").glob("layout-*"):
            assert cached_part(path) == 0, path
    (path,) = list((ceph.mounts[0] / "uncached").glob("layout-*"))[:1]
    path.read_bytes()
    assert cached_part(path) > 0, "it would have been seen"


def stripes_of(path):
    """The stripes of CephFS: bytes, and the number of objects that are used at once."""
    return [int(os.getxattr(path, f"ceph.file.layout.stripe_{of}")) for of in ("unit", "count")]


def begins_on_stripes(space):
    """Whether each portion in the layouts of the space begins on a stripe; their files."""
    shown = json.loads(subprocess.check_output([MAINSTAY, "show", space, "--json"], timeout=LIMIT_S))
    at = [portion["at"] for layout in shown["layouts"] for portion in layout["portions"]]
    assert len(at) == RANKS and all(place % STRIPE_BYTES == 0 for place in at), shown
    return {space / layout["file"] for layout in shown["layouts"]}


def test_reserved_stripes_are_those_of_the_files(ceph, faults, scratch):
    space = ceph.mounts[0] / "reserved"
    placing = ["--per", "node", "--ranks-per-node", "1", "--stripe-count", STRIPES, "--stripe-size", STRIPE_BYTES]
    command = [MAINSTAY, "reserve", space, "--ranks", RANKS, "--per-rank", "1MiB", *placing]
    subprocess.run(list(map(str, command)), check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
    files = begins_on_stripes(space)
    assert [stripes_of(path) for path in files] == MOUNTS * [[STRIPE_BYTES, STRIPES]]
    status, output = jobs.run(RANKS, over_mounts(ceph, RANKS, faults, "reserved", "open", *saves(1), "close"), scratch)
    assert status == 0, output
    assert set(space.glob("layout-*")) == files, "it must use the reserved files"
    comes_back(ceph, faults, scratch, "reserved", 1)


def test_a_shared_file_without_lazy_io_is_told(ceph):
    space = ceph.mounts[0] / "shared"
    command = [MAINSTAY, "reserve", space, "--ranks", "4", "--per-rank", "1MiB", "--json", "--per"]
    for per, is_told in ("app", True), ("rank", False):
        done = subprocess.run([*command, per], check=True, timeout=LIMIT_S, capture_output=True, text=True)
        assert json.loads(done.stdout)["lazy_io"] is False, "ceph-fuse grants it to no single file"
        assert ("client_force_lazyio" in done.stderr) == is_told, done.stderr


def test_hints_of_pfs_delegation_stripe_the_files(ceph, scratch):
    program = build_c(["pfs.c"], "pfs")
    hints = [f"hint:striping_factor:{STRIPES}", f"hint:striping_unit:{STRIPE_BYTES}"]
    commands = [*hints, "open", "write:1:100000", "read", "close"]
    status, output = jobs.run(RANKS, over_mounts(ceph, RANKS, program, "hinted", *commands), scratch)
    assert status == 0 and "WRONG" not in output, output
    files = begins_on_stripes(ceph.mounts[0] / "hinted")
    assert [stripes_of(path) for path in files] == MOUNTS * [[STRIPE_BYTES, STRIPES]]


class Held:
    """A job over all mounts that saves revision 1, and stands still in revision 2 between data and slot."""

    def __init__(self, ceph, faults, shim, scratch, space):
        self.at, self.held = scratch / "held", scratch / "ranks-held"
        # The file gets a byte for each rank.
        self.held.touch()
        # The data is written. No sync returns before the file `held` is gone, so no slot is written.
        shim = {"LD_PRELOAD": shim, "INJECT": "sync:hold", "INJECT_WHEN": self.at, "INJECT_SPACE": ceph.home}
        shim["INJECT_HELD"] = self.held
        variables = [f"{name}={value}" for name, value in shim.items()]
        commands = ["open", *saves(1), f"make:{self.at}", "save:2", "pause", "wait", "close"]
        self.job = Paused(RANKS, ["env", *variables, *over_mounts(ceph, RANKS, faults, space, *commands)], scratch)

    def __enter__(self):
        try:
            self._await()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _await(self):
        self.job.until_all("pause")
        deadline = time.monotonic() + LIMIT_S
        while self.held.stat().st_size < RANKS:
            assert time.monotonic() < deadline, "not all ranks sync"
            time.sleep(LOOK_S)

    def __exit__(self, *how):
        self.at.unlink(missing_ok=True)
        self.job.__exit__(*how)

    def goes_on(self):
        self.at.unlink()
        self.job.go_on()

    def ends(self):
        """The report about revision 2."""
        self.job.until_all("end")
        return [(call, status) for _, call, status, _ in self.job.said if call in ("wait", "close")][RANKS:]


def comes_back(ceph, faults, scratch, space, revision, ranks=RANKS, **more):
    """A job over all mounts restores `revision` completely, and can go on."""
    commands = ["open", "restore", f"holds:{revision}", *saves(AFTERWARDS), "close"]
    status, output = jobs.run(ranks, over_mounts(ceph, ranks, faults, space, *commands, **more), scratch)
    assert status == 0, output
    told = [line.split(" ", 4)[1:4] for line in output.splitlines() if line.startswith("= ")]
    assert {status for _, call, status in told if call != "restored"} == {"OK"}, output


def test_nothing_is_published_before_its_data_is_synced(ceph, faults, shim, scratch):
    """A read by another mount makes the writers' mounts write their cached data, of any kind."""
    with Held(ceph, faults, shim, scratch, "order") as held:
        shown = json.loads(
            subprocess.check_output([MAINSTAY, "show", ceph.mounts[0] / "order", "--json"], timeout=LIMIT_S)
        )
        assert shown["revision"]["revision"] == 1, shown
        held.goes_on()
        assert {status for _, status in held.ends()} == {"OK"}, held.job.said


def test_a_metadata_server_restarts_during_a_checkpoint(ceph, faults, shim, scratch):
    with Held(ceph, faults, shim, scratch, "mds") as held:
        ceph.restart("mds.m0", signal.SIGKILL)
        held.goes_on()
        assert {status for _, status in held.ends()} == {"OK"}, held.job.said
    comes_back(ceph, faults, scratch, "mds", 2)


def test_object_servers_stop_and_go_on_during_a_checkpoint(ceph, faults, shim, scratch):
    """All of them stop, so that the checkpoint certainly waits for one. Meanwhile it is not reported durable."""
    with Held(ceph, faults, shim, scratch, "osd") as held:
        try:
            for server in ceph.object_servers():
                ceph.send(server, signal.SIGSTOP)
            held.goes_on()
            time.sleep(STOPPED_S)
            assert not held.job.has_said("wait", more_than=RANKS), held.job.said
        finally:
            for server in ceph.object_servers():
                ceph.send(server, signal.SIGCONT)
        assert {status for _, status in held.ends()} == {"OK"}, held.job.said
    comes_back(ceph, faults, scratch, "osd", 2)


@pytest.mark.parametrize("is_lazy", [False, True])
def test_another_mount_reads_what_was_written_last(ceph, lazy, faults, scratch, is_lazy):
    """A running job saves, and the cache of that mount has an older state of its file, which lazy I/O keeps."""
    name, revisions, first = f"stale-{is_lazy}", (1, 2, 3), lazy * is_lazy
    other = ceph.mounts[first + 1] / name
    commands = ["open", *[word for revision in revisions for word in (*saves(revision), "pause")], "close"]
    command = over_mounts(ceph, 1, faults, name, *commands, mounts=1, first=first)
    with Paused(1, command, scratch) as job, contextlib.ExitStack() as held_open:
        for revision in revisions:
            job.until_all("pause")
            subprocess.run([MAINSTAY, "verify", other], check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
            shown = json.loads(subprocess.check_output([MAINSTAY, "show", other, "--json"], timeout=LIMIT_S))
            assert shown["revision"]["revision"] == revision, shown
            for path in other.glob("layout-*"):
                held_open.enter_context(path.open("rb")).read()
            job.go_on()
        job.until_all("end")


def test_a_mount_that_is_killed_between_data_and_slot(ceph, faults, shim, scratch):
    """Its ranks get an error with its name. The revision before is restored through the remaining mounts."""
    with Held(ceph, faults, shim, scratch, "killed") as held:
        ceph.kill_mount(MOUNTS - 1)
        held.goes_on()
        said = held.ends()
    assert {status for _, status in said} & {"IO", "SYNC_FAILED", "NOT_SAVED"}, said
    ceph.evict_dead(MOUNTS - 1)
    comes_back(ceph, faults, scratch, "killed", 1, mounts=MOUNTS - 1)
    ceph.mount_again(MOUNTS - 1)
