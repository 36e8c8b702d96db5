"""Disks and links as slow as those of 2004, on one machine: loop devices that the kernel holds back, and network
namespaces with a token bucket between them. Only root can make them, and where the kernel has them."""

import os
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

CONTROL = Path("/sys/fs/cgroup/blkio")
MB = 10**6
TOOLS = ("ip", "tc", "unshare", "losetup", "mkfs.ext4", "mount", "umount")
NEEDED = "needs root and " + ", ".join(TOOLS)
LIMIT_S = 60
AGENT = """#!/bin/sh
# A remote shell that stays on this machine: the name of a host is that of a network namespace. MPI takes hosts of one name
# for one.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
"""


class Lacking(Exception):
    """Why something slow cannot be had here."""


def do(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise Lacking(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout.strip()


def check():
    if os.geteuid() != 0 or not all(map(shutil.which, TOOLS)):
        raise Lacking(NEEDED)


@contextmanager
def disks(scratch, count, size_bytes, mb_per_s):
    """The mount points of `count` file systems, each on a device that takes and gives so much; and the words in front of a
    command for which that holds."""
    check()
    if not (CONTROL / "blkio.throttle.write_bps_device").exists():
        raise Lacking(f"{CONTROL} holds nothing back: there is no such controller here")
    with ExitStack() as last:
        group = CONTROL / f"mainstay-bench-{os.getpid()}"
        group.mkdir()
        last.callback(group.rmdir)
        points = [made_disk(last, Path(scratch), number, size_bytes) for number in range(count)]
        for point in points:
            device = point.stat().st_dev
            for way in ("read", "write"):
                limit = f"{os.major(device)}:{os.minor(device)} {int(mb_per_s * MB)}"
                (group / f"blkio.throttle.{way}_bps_device").write_text(limit)
        yield points, ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


def made_disk(last, scratch, number, size_bytes):
    image, point = scratch / f"disk-{number}.image", scratch / f"disk-{number}"
    with open(image, "wb") as file:
        file.truncate(size_bytes)
    last.callback(image.unlink)
    device = do("losetup", "--find", "--show", "--direct-io=on", image)
    last.callback(do, "losetup", "--detach", device)
    do("mkfs.ext4", "-q", "-E", "nodiscard", device)
    point.mkdir()
    last.callback(point.rmdir)
    do("mount", device, point)
    last.callback(do, "umount", point)
    return point


@contextmanager
def links(scratch, nodes, ranks_each, mbit):
    """Words in front of mpiexec, and options of it, for a job on nodes with so fast a link each."""
    check()
    with ExitStack() as last:
        bridge, names = f"msb{os.getpid() % 10**6}", [f"msb{os.getpid() % 10**6}n{number}" for number in range(nodes)]
        do("ip", "link", "add", bridge, "type", "bridge")
        last.callback(do, "ip", "link", "delete", bridge)
        do("ip", "link", "set", bridge, "up")
        for number, name in enumerate(names):
            made_link(last, bridge, name, f"10.213.77.{number + 1}/24", mbit)
        agent = Path(scratch) / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o700)
        hosts = ",".join(f"{name}:{ranks_each}" for name in names)
        # Its transport through shared memory crashes where nodes share a machine, and its hierarchical collectives hang.
        options = ["--prtemca", "plm_ssh_agent", str(agent), "--host", hosts]
        options += ["--mca", "btl", "self,tcp", "--mca", "coll", "^han"]
        named = f'hostname {names[0]} && exec "$@"'
        before = ["ip", "netns", "exec", names[0], "unshare", "--uts", "sh", "-c", named, "sh"]
        yield before, [*options, "--map-by", f"ppr:{ranks_each}:node:OVERSUBSCRIBE"]


def made_link(last, bridge, name, address, mbit):
    outside = f"{name}o"
    do("ip", "netns", "add", name)
    last.callback(do, "ip", "netns", "delete", name)  # which takes the link with it
    do("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
    do("ip", "link", "set", outside, "master", bridge, "up")
    within = ("ip", "-n", name)
    do(*within, "address", "add", address, "dev", "eth0")
    do(*within, "link", "set", "eth0", "up")
    do(*within, "link", "set", "lo", "up")
    for where in (("tc", "qdisc", "add", "dev", outside), ("tc", "-n", name, "qdisc", "add", "dev", "eth0")):
        do(*where, "root", "tbf", "rate", f"{mbit}mbit", "burst", "128kb", "latency", "50ms")
