#!/bin/bash
# A CephFS on this machine alone, for tests and benchmarks. Taking it down removes everything.
#
#   cephfs.sh check        prints the missing programs, if any
#   cephfs.sh up           a monitor, a manager, CEPH_OSDS object servers, CEPH_MDS active metadata servers
#   cephfs.sh mount N      ceph-fuse mounts mnt.0 to mnt.N-1, unless they exist
#   cephfs.sh start NAME   starts a daemon that was killed, such as osd.1 or mds.m0
#   cephfs.sh stop NAME [SIGNAL]  ends a daemon
#   cephfs.sh pid NAME     of a daemon, or of a mount: fuse.0
#   cephfs.sh down         unmounts, ends every process, removes every file
#
# CEPH_DIR is the folder of the CephFS; it must not exist yet. `up` reads CEPH_OSDS (3), CEPH_MDS (1) and CEPH_PORT
# (46700, the first of some 200 ports on the loopback device). Objects are stored in the memory of the object servers:
# CEPH_OSD_BYTES (2 GiB) each, and one copy of each object.
set -euo pipefail
: "${CEPH_DIR:?names the folder of the CephFS}" "${CEPH_OSDS:=3}" "${CEPH_MDS:=1}" "${CEPH_PORT:=46700}"
: "${CEPH_OSD_BYTES:=2147483648}"
dir=$CEPH_DIR
conf=$dir/ceph.conf
readonly TRIES=300 PAUSE_S=0.1 # half a minute for anything to come up
export CEPH_CONF=$conf CEPH_ARGS=

check() {
    local missing=()
    for command in ceph-mon ceph-mgr ceph-osd ceph-mds ceph-fuse ceph; do
        command -v $command >/dev/null || missing+=("$command")
    done
    [ ${#missing[@]} = 0 ] || fail "missing: ${missing[*]}; on Debian and Ubuntu: apt-get install ceph-mon ceph-mgr" \
        "ceph-osd ceph-mds ceph-fuse"
    [ -r /dev/fuse ] && [ -w /dev/fuse ] || fail "/dev/fuse cannot be used: without FUSE nothing can be mounted"
    [ "$(id -u)" = 0 ] || command -v fusermount3 >/dev/null || fail "mounting takes root, or fusermount3"
}

fail() {
    echo "cephfs: $*" >&2
    exit 1
}

# Waits until a command succeeds.
until_true() {
    local what=$1 try
    shift
    for ((try = 0; try < TRIES; try++)); do
        "$@" >/dev/null 2>&1 && return
        sleep $PAUSE_S
    done
    tail -n 5 "$dir"/log/start.* >&2 || true
    fail "$what did not come up"
}

ask() {
    ceph --connect-timeout 20 "$@" 2>>"$dir/log/ask"
}

# Without keys: the CephFS uses one machine and only its loopback device. Each object has one copy, on any object
# server.
write_conf() {
    cat >"$conf" <<END
[global]
  fsid = $(cat "$dir/fsid")
  mon host = [v2:127.0.0.1:$CEPH_PORT,v1:127.0.0.1:$((CEPH_PORT + 1))]
  public addr = 127.0.0.1
  cluster addr = 127.0.0.1
  ms bind ipv6 = false
  ms bind port min = $((CEPH_PORT + 10))
  ms bind port max = $((CEPH_PORT + 200))
  auth cluster required = none
  auth service required = none
  auth client required = none
  run dir = $dir/run
  log file = $dir/log/\$name.log
  admin socket = $dir/run/\$name.asok
  pid file = $dir/run/\$name.pid
  crash dir = $dir/log
  osd crush chooseleaf type = 0
  osd pool default size = 1
  osd pool default min size = 1
  osd pool default pg autoscale mode = off
  mon allow pool size one = true
  mon warn on pool no redundancy = false
  mon max pg per osd = 1000
  mon data avail warn = 1
  mon data avail crit = 1
  # the defaults assume a server
  ms async op threads = 1
[mon]
  mon data = $dir/mon.a
  mon cluster log file = $dir/log/cluster.log
  mon initial members = a
[mgr]
  mgr data = $dir/mgr.x
  mgr initial modules =
[osd]
  osd data = $dir/osd.\$id
  osd objectstore = memstore
  memstore device bytes = $CEPH_OSD_BYTES
  osd op num shards = 1
  osd op num threads per shard = 1
  osd class load list = *
  osd class default list = *
  osd numa auto affinity = false
[mds]
  mds data = $dir/mds.\$id
  mds cache memory limit = 268435456
[client]
  # each ceph-fuse has its own
  log file = $dir/log/\$name.\$pid.log
  admin socket = $dir/run/\$name.\$pid.asok
  pid file =
END
}

# Starts a daemon. It goes to the background by itself and writes its pid.
daemon() {
    local name=$1
    shift
    "$@" -c "$conf" >>"$dir/log/start.$name" 2>&1 || {
        tail -n 5 "$dir/log/start.$name" >&2
        fail "$name did not start"
    }
}

start() {
    local id=${1#*.}
    case $1 in
    # Keeps the memory: otherwise each overwritten object would cost fresh pages.
    osd.*) MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=$CEPH_OSD_BYTES daemon "$1" ceph-osd -i "$id" ;;
    mon.* | mgr.* | mds.*) daemon "$1" "ceph-${1%%.*}" -i "$id" ;;
    *) fail "no daemon: $1" ;;
    esac
}

active() {
    [ "$(ask mds stat | grep -o up:active | wc -l)" = "$CEPH_MDS" ]
}

up() {
    check
    mkdir "$dir" || fail "$dir is there already: take it down first"
    mkdir "$dir"/{run,log,mon.a,mgr.x}
    cat /proc/sys/kernel/random/uuid >"$dir/fsid"
    write_conf
    monmaptool --create --addv a "[v2:127.0.0.1:$CEPH_PORT,v1:127.0.0.1:$((CEPH_PORT + 1))]" \
        --fsid "$(cat "$dir/fsid")" "$dir/monmap" >"$dir/log/start.monmap" 2>&1
    daemon monmap ceph-mon --mkfs -i a --monmap "$dir/monmap"
    start mon.a
    until_true "the monitor" ask -s
    start mgr.x
    local id uuid
    for ((id = 0; id < CEPH_OSDS; id++)); do
        mkdir "$dir/osd.$id"
        uuid=$(cat /proc/sys/kernel/random/uuid)
        ask osd new "$uuid" "$id" >/dev/null
        daemon "osd.$id" ceph-osd -i "$id" --mkfs --osd-uuid "$uuid"
        start "osd.$id"
    done
    ask osd pool create meta 8 >/dev/null
    ask osd pool create data 16 >/dev/null
    ask fs new fs meta data >/dev/null
    for ((id = 0; id < CEPH_MDS; id++)); do
        mkdir "$dir/mds.m$id"
        start "mds.m$id"
    done
    [ "$CEPH_MDS" = 1 ] || ask fs set fs max_mds "$CEPH_MDS" >/dev/null
    until_true "$CEPH_MDS active metadata servers" active
}

mount() {
    local at
    for ((at = 0; at < $1; at++)); do
        mountpoint -q "$dir/mnt.$at" && continue
        mkdir -p "$dir/mnt.$at"
        # In the foreground of a session of its own, so that its pid is known.
        setsid ceph-fuse -f -c "$conf" --id admin ${CEPH_FUSE_OPTIONS:-} "$dir/mnt.$at" \
            >>"$dir/log/start.fuse.$at" 2>&1 </dev/null &
        echo $! >"$dir/run/fuse.$at.pid"
    done
    for ((at = 0; at < $1; at++)); do
        until_true "mount $at" mountpoint -q "$dir/mnt.$at"
    done
}

# Sends a signal, and waits for the end.
stop() {
    local pid
    pid=$(cat "$dir/run/$1.pid")
    ! ours "$pid" || kill -"$2" "$pid"
    while ours "$pid" || exits "$pid"; do sleep $PAUSE_S; done
}

# Whether the process still belongs to this CephFS: its command line has the path of the configuration.
ours() {
    grep -qa -- "$conf" "/proc/$1/cmdline" 2>/dev/null
}

# Waits for the end. An ending process has no command line any more, but for a while still has its files and locks.
exits() {
    local state line
    state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) || true
    line=$(tr -d '\0' 2>/dev/null <"/proc/$1/cmdline") || true
    [ -n "$state" ] && [ "$state" != Z ] && [ -z "$line" ]
} 2>/dev/null

down() {
    local point file pid
    for point in "$dir"/mnt.*; do
        # The folder of a mount with a killed process cannot be read.
        grep -q " $point " /proc/self/mounts || continue
        umount "$point" 2>/dev/null || umount -l "$point" 2>/dev/null || fusermount3 -uz "$point"
    done
    # Everything is removed, so no daemon needs an orderly end.
    for file in "$dir"/run/{fuse,mds,osd,mgr,mon}.*.pid; do
        [ -e "$file" ] && pid=$(cat "$file") || continue
        ! ours "$pid" || kill -9 "$pid" 2>/dev/null || true
        while ours "$pid"; do sleep $PAUSE_S; done
    done
    rm -rf --one-file-system "$dir"
}

case "${1:-}" in
check | up | down) "$1" ;;
mount | start) "$1" "${2:?}" ;;
stop) stop "${2:?}" "${3:-KILL}" ;;
pid) cat "$dir/run/${2:?}.pid" ;;
*)
    sed -n '2,/^set/{/^set/d;p}' "$0"
    exit 2
    ;;
esac
