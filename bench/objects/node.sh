#!/bin/sh
# Each process is a node, whose memory lies below $NODES and goes with it.
export MAINSTAY_NODE="n$$" MAINSTAY_POOL_DIRECTORY="$NODES/$$"
mkdir -p "$MAINSTAY_POOL_DIRECTORY"
exec "$@"
