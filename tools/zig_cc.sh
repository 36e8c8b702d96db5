#!/bin/sh
# A C compiler and linker for the glibc of version GLIBC, whichever this machine has: that of zig, as maturin calls it.
exec "$(dirname "$0")/../.venv-wheel/bin/maturin" zig cc -- -target "$(uname -m)-linux-gnu.$GLIBC" "$@"
