#!/bin/sh
# Each process is a node. Its memory is stored below $NODES and is lost with it.
export MAINSTAY_NODE="n$$" MAINSTAY_POOL_DIRECTORY="$NODES/$$"
mkdir -p "$MAINSTAY_POOL_DIRECTORY"
exec "$@"
