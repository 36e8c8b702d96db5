"""On CephFS, with several mounts and a job over all of them: what a checkpoint costs the metadata servers."""

import json
import signal
import subprocess
import time

import jobs
import pytest
from cephfs import CephFs, missing
from paused import Paused
from mpi import ROOT
from programs import build_c
from staged import pool_directory

pytestmark = pytest.mark.cephfs

MOUNTS = 4
RANKS = 4
LIMIT_S = 60
STOPPED_S = 2  # less than after what servers think one of them dead
MAINSTAY = ROOT / "target" / "release" / "mainstay"
FURTHER = 9  # checkpoints, as published
MESSAGES_MAX = 10  # capability messages and journal events together, in all of them


@pytest.fixture(scope="module")
def ceph():
    if why := missing():
        pytest.skip(f"no CephFS here: {why}")
    with CephFs(MOUNTS) as made:
        yield made


@pytest.fixture(autouse=True)
def pools(monkeypatch):
    """Of its own: what else starts on this machine would look into their spaces, and be counted."""
    with pool_directory() as folder:
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", str(folder))
        yield folder


@pytest.fixture(scope="module")
def faults():
    return build_c(["faults.c"], "faults", "-Wno-misleading-indentation")


@pytest.fixture(scope="module")
def shim():
    return build_c(["inject.c"], "inject.so", "-shared", "-fPIC")


def over_mounts(ceph, ranks, program, space, *commands, mounts=MOUNTS):
    """The words that run `program` on `ranks` ranks, as many on each mount, each of which is a node."""
    script = (
        f"node=$((OMPI_COMM_WORLD_RANK * {mounts} / {ranks})) program=$0;"
        f'MAINSTAY_NODE=$node exec "$program" {ceph.home}/mnt.$node/{space} "$@"'
    )
    return ["sh", "-c", script, program, *commands]


def saves(*numbers):
    return [word for number in numbers for word in (f"save:{number}", "wait")]


@pytest.mark.parametrize(("ranks", "per"), [(RANKS, "app"), (RANKS, "auto"), (16, "auto")])
def test_a_checkpoint_asks_the_metadata_server_nothing(ceph, faults, scratch, monkeypatch, ranks, per):
    monkeypatch.setenv("MAINSTAY_PER", per)
    commands = ["open", *saves(1), "pause", *saves(*range(2, 2 + FURTHER)), "pause", "close"]
    with Paused(ranks, over_mounts(ceph, ranks, faults, f"space-{ranks}-{per}", *commands), scratch) as job:
        job.until_all("pause")
        before = ceph.settled_counters() if ranks > RANKS else ceph.counters()
        job.go_on()
        job.until_all("pause")
        cost = (ceph.settled_counters() if ranks > RANKS else ceph.counters()) - before
        job.go_on()
        job.until_all("end")
    assert {status for _, _, status, _ in job.said} == {"OK"}, job.said
    assert cost["requests"] == 0, cost
    # Of the published number of processes; of fewer, what the opening has left to be told is not waited for.
    assert ranks == RANKS or cost["capability messages"] + cost["journal events"] <= MESSAGES_MAX, cost


class Held:
    """A job over all mounts that saves revision 1, and stands still in revision 2 between data and slot."""

    def __init__(self, ceph, faults, shim, scratch, space):
        self.at = scratch / "held"
        # The data are written; no sync returns before the file `held` is gone, so that no slot is written.
        shim = {"LD_PRELOAD": shim, "INJECT": "sync:hold", "INJECT_WHEN": self.at, "INJECT_SPACE": ceph.home}
        variables = [f"{name}={value}" for name, value in shim.items()]
        commands = ["open", *saves(1), f"make:{self.at}", "save:2", "pause", "wait", "close"]
        self.job = Paused(RANKS, ["env", *variables, *over_mounts(ceph, RANKS, faults, space, *commands)], scratch)

    def __enter__(self):
        self.job.__enter__()
        self.job.until_all("pause")
        return self

    def __exit__(self, *how):
        self.at.unlink(missing_ok=True)
        self.job.__exit__(*how)

    def goes_on(self):
        self.at.unlink()
        self.job.go_on()

    def ends(self):
        """What it said of revision 2."""
        self.job.until_all("end")
        return [(call, status) for _, call, status, _ in self.job.said if call in ("wait", "close")][RANKS:]


def comes_back(ceph, faults, scratch, space, revision, ranks=RANKS, **more):
    """A job over all mounts restores `revision`, whole, and can go on."""
    commands = ["open", "restore", f"holds:{revision}", *saves(7), "close"]
    status, output = jobs.run(ranks, over_mounts(ceph, ranks, faults, space, *commands, **more), scratch)
    assert status == 0, output
    told = [line.split(" ", 4)[1:4] for line in output.splitlines() if line.startswith("= ")]
    assert {status for _, call, status in told if call != "restored"} == {"OK"}, output


def test_a_metadata_server_restarts_during_a_checkpoint(ceph, faults, shim, scratch):
    with Held(ceph, faults, shim, scratch, "mds") as held:
        ceph.restart("mds.m0", signal.SIGKILL)
        held.goes_on()
        assert {status for _, status in held.ends()} == {"OK"}, held.job.said
    comes_back(ceph, faults, scratch, "mds", 2)


def test_object_servers_stop_and_go_on_during_a_checkpoint(ceph, faults, shim, scratch):
    """All of them, so that it is certain that the checkpoint waits for one; it is not told to be durable meanwhile."""
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


def test_another_mount_reads_what_was_written_last(ceph, faults, scratch):
    """Also where an older state of the file lies in the cache of that mount."""
    first, other = (ceph.mounts[at] / "stale" for at in (0, 1))
    for revision in (1, 2, 3):
        commands = ["open", "restore", *saves(revision), "close"]
        subprocess.run([faults, "--solo", first, *commands], check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
        subprocess.run([MAINSTAY, "verify", other], check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
        shown = json.loads(subprocess.check_output([MAINSTAY, "show", other, "--json"], timeout=LIMIT_S))
        assert shown["revision"]["revision"] == revision, shown
        for path in other.glob("layout-*"):
            path.read_bytes()


def test_a_mount_that_is_killed_between_data_and_slot(ceph, faults, shim, scratch):
    """Its ranks are told so by name; the revision before comes back through the mounts that are left."""
    with Held(ceph, faults, shim, scratch, "killed") as held:
        ceph.kill_mount(MOUNTS - 1)
        held.goes_on()
        said = held.ends()
    assert {status for _, status in said} & {"IO", "SYNC_FAILED", "NOT_SAVED"}, said
    ceph.evict_dead(MOUNTS - 1)
    comes_back(ceph, faults, scratch, "killed", 1, mounts=MOUNTS - 1)
    ceph.mount_again(MOUNTS - 1)
