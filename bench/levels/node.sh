#!/bin/sh
# Runs a rank as on one of NODES nodes. Each has memory of its own below LEVELS_NODES. If LEVELS_DISKS is given, each
# also has a disk of its own, with that path and the node's number:    node.sh NODES COMMAND...
nodes=$1
shift
MAINSTAY_NODE=$((OMPI_COMM_WORLD_RANK * nodes / OMPI_COMM_WORLD_SIZE))
# A node that was lost is gone, and its ranks run on the next one.
[ "$MAINSTAY_NODE" != "$LEVELS_LOST" ] || MAINSTAY_NODE=$((MAINSTAY_NODE + 1))
MAINSTAY_POOL_DIRECTORY=$LEVELS_NODES/$MAINSTAY_NODE
export MAINSTAY_NODE MAINSTAY_POOL_DIRECTORY
[ -z "$LEVELS_DISKS" ] || export MAINSTAY_DISK="$LEVELS_DISKS$MAINSTAY_NODE"
exec "$@"
