#!/bin/sh
# Makes in dist the wheel for machines with glibc GLIBC or newer, and the sdist: wheel.sh GLIBC.
set -eu
cd "$(dirname "$0")/.."
export GLIBC="$1" PATH="$PWD/.venv-wheel/bin:$PATH"
host=$(rustc -vV | sed -n 's/^host: //p')
under=$(echo "$host" | tr - _)

# A target has a folder of its own, beside what was built for this machine.
export CARGO_BUILD_TARGET="$host"
export "CC_$under=$PWD/tools/zig_cc.sh"
export "CARGO_TARGET_$(echo "$under" | tr '[:lower:]' '[:upper:]')_LINKER=$PWD/tools/zig_cc.sh"
# A source package has lost that it can be run.
chmod +x tools/zig_cc.sh
rm -rf dist
make --no-print-directory stage BUILT="target/$host/release"
maturin build --release --compatibility "manylinux_$(echo "$GLIBC" | tr . _)" --out dist
# It is made of what git tells.
[ ! -e .git ] || maturin sdist --out dist
python tools/needs.py dist/*.whl
