"""A CephFS on this machine alone (tools/cephfs.sh), and the counters of its metadata servers."""

import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from mpi import ROOT

SCRIPT = ROOT / "tools" / "cephfs.sh"
LIMIT_S = 120  # of one call of the script
ANSWER_BYTES_MAX = 64 << 20
ANSWER_LIMIT_S = 20
SETTLE_S, SETTLE_LOOK_S, SETTLE_LIMIT_S = 6, 0.2, 40  # clients hold back what can wait for 5 s
REMOVED_LOOK_S, REMOVED_LIMIT_S = 0.05, 3
PORTS = range(20000, 30000, 250)  # each the first of those of one CephFS


def missing():
    """The reason why this machine cannot run a CephFS, or an empty text."""
    done = subprocess.run(
        [SCRIPT, "check"], env={**os.environ, "CEPH_DIR": "/"}, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S
    )
    return done.stderr.strip()


class CephFs:
    """A context manager. At its end no process, mount or file of the CephFS is left."""

    def __init__(self, mounts, metadata_servers=1, bytes_each=2 << 30):
        """`bytes_each`: the capacity of an object server, in memory that is allocated as needed."""
        self._mounts, self._metadata_servers, self._bytes = mounts, metadata_servers, bytes_each

    def __enter__(self):
        # Paths of sockets must be short.
        self._port, self._claim = claim()
        self._folder = tempfile.TemporaryDirectory(prefix="mainstay-ceph-", dir="/tmp")
        self.home = Path(self._folder.name) / "c"
        try:
            self.call("up")
            self.call("mount", self._mounts)
        except BaseException:
            self.__exit__()
            raise
        self.mounts = [self.home / f"mnt.{at}" for at in range(self._mounts)]
        return self

    def __exit__(self, *_):
        try:
            if self.home.exists():
                self.call("down")
        finally:
            self._claim.close()
            self._folder.cleanup()

    def add_mounts(self, count, options):
        """Adds mounts, with options of ceph-fuse; returns their folders."""
        first, self._mounts = self._mounts, self._mounts + count
        self.call("mount", self._mounts, CEPH_FUSE_OPTIONS=options)
        self.mounts += [self.home / f"mnt.{at}" for at in range(first, self._mounts)]
        return self.mounts[first:]

    def call(self, *words, **more):
        """Runs a command of the script with additional variables; returns its output."""
        variables = {
            **more,
            "CEPH_DIR": str(self.home),
            "CEPH_MDS": str(self._metadata_servers),
            "CEPH_PORT": str(self._port),
            "CEPH_OSD_BYTES": str(self._bytes),
        }
        done = subprocess.run(
            [SCRIPT, *map(str, words)],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=LIMIT_S,
        )
        return done.stdout

    def send(self, name, number):
        """Sends a signal to a daemon ("osd.1") or to the process of a mount ("fuse.0")."""
        os.kill(int(self.call("pid", name)), number)

    def kill_mount(self, at):
        """Kills the node of this mount. The metadata servers notice it after some time."""
        self.send(f"fuse.{at}", signal.SIGKILL)

    def mount_again(self, at):
        """Removes the rest of a mount with a killed process, and mounts again."""
        subprocess.run(["umount", "-l", self.mounts[at]], check=True, timeout=LIMIT_S)
        self.call("mount", self._mounts)

    def restart(self, name, number):
        """Ends a daemon by a signal, and starts it again."""
        self.call("stop", name, int(number))
        self.call("start", name)

    def evict_dead(self, at):
        """Evicts a dead mount at once, before the metadata servers notice it."""
        for server in self.servers():
            for session in self.ask(server, prefix="session ls"):
                if session["client_metadata"].get("mount_point") == str(self.mounts[at]):
                    self.ask(server, prefix="session evict", filters=[f"id={session['id']}"])

    def object_servers(self):
        return sorted(path.stem for path in (self.home / "run").glob("osd.*.pid"))

    def servers(self):
        return [f"mds.m{at}" for at in range(self._metadata_servers)]

    def ask(self, daemon, **command):
        """The answer of a daemon to a command on its admin socket."""
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(ANSWER_LIMIT_S)
            asked.connect(str(self.home / "run" / f"{daemon}.asok"))
            asked.sendall(json.dumps({"format": "json", **command}).encode() + b"\0")
            with asked.makefile("rb") as answer:
                (length,) = struct.unpack(">I", answer.read(4))
                return json.loads(answer.read(min(length, ANSWER_BYTES_MAX)) or "null")

    def counters(self):
        """The counters of all metadata servers since their start: `requests`, by kind as `request NAME`; `capability
        messages`, by kind as `capability NAME`; `journal events`."""
        counted = Counter()
        for server in self.servers():
            counted.update(of_one(self.ask(server, prefix="perf dump")))
        return counted

    def await_removed(self):
        """Waits, for a limited time, until the objects of removed files are gone."""
        deadline = time.monotonic() + REMOVED_LIMIT_S
        while time.monotonic() < deadline:
            dumps = [self.ask(server, prefix="perf dump") for server in self.servers()]
            if not any(dump["mds_cache"]["num_strays"] + dump["purge_queue"]["pq_executing"] for dump in dumps):
                return
            time.sleep(REMOVED_LOOK_S)

    def settled_counters(self):
        """The counters once no message is under way: clients report some changes late."""
        deadline = time.monotonic() + SETTLE_LIMIT_S
        counted, since = self.counters(), time.monotonic()
        while time.monotonic() < min(since + SETTLE_S, deadline):
            time.sleep(SETTLE_LOOK_S)
            if (now := self.counters()) != counted:
                counted, since = now, time.monotonic()
        return counted


def claim():
    """The first port of a free range for one CephFS, and a socket that keeps others from choosing the same range."""
    for port in PORTS:
        claimed = socket.socket()
        try:
            claimed.bind(("127.0.0.1", port + PORTS.step - 1))
            if is_free(port) and is_free(port + 1):
                return port, claimed
        except OSError:
            pass
        claimed.close()
    raise OSError("all ports that a CephFS could have are in use")


def is_free(port):
    """Whether no process listens on the port. A CephFS of another job would listen on its first port."""
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def of_one(dump):
    """The counters of one metadata server."""
    counted = Counter()
    for name, value in dump["mds_server"].items():
        # The count of a latency is the number of its measurements.
        if name.startswith("req_") and value["avgcount"]:
            counted[f"request {name.removeprefix('req_').removesuffix('_latency')}"] = value["avgcount"]
    counted["requests"] = dump["mds_server"]["handle_client_request"]
    for name, value in dump["mds"].items():
        # The dirty ones are also in the other counters.
        if name.startswith(("handle_client_cap", "ceph_cap_op")) and not name.endswith("_dirty") and value:
            counted[f"capability {name}"] = value
    counted["capability messages"] = sum(count for name, count in counted.items() if name.startswith("capability "))
    counted["journal events"] = dump["mds_log"]["evadd"]
    return counted
