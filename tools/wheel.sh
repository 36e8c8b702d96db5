#!/bin/sh
# Makes in dist the wheel for machines with glibc GLIBC or newer, and the sdist: wheel.sh GLIBC.
set -eu
cd "$(dirname "$0")/.."
export GLIBC="$1" PATH="$PWD/.venv-wheel/bin:$PATH"
host=$(rustc -vV | sed -n 's/^host: //p')
under=$(echo "$host" | tr - _)

# With a target, cargo uses a folder of its own, beside the build for this machine.
export CARGO_BUILD_TARGET="$host"
export "CC_$under=$PWD/tools/zig_cc.sh"
export "CARGO_TARGET_$(echo "$under" | tr '[:lower:]' '[:upper:]')_LINKER=$PWD/tools/zig_cc.sh"
# A source package loses the executable bit.
chmod +x tools/zig_cc.sh
rm -rf dist
make --no-print-directory stage BUILT="target/$host/release" RANKS_CC="$PWD/tools/zig_cc.sh" RANKS_OBJECTS=target/wheel-objects FILES_OBJECTS=target/wheel-files-objects
maturin build --release --compatibility "manylinux_$(echo "$GLIBC" | tr . _)" --out dist
# Git lists the files of the source package.
[ ! -e .git ] || maturin sdist --out dist
python tools/needs.py dist/*.whl
