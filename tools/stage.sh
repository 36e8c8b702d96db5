#!/bin/sh
# Lays out in target/wheel what the wheel brings beside the Python package: what `make install` installed
# into the folder PREFIX, without links, which wheels cannot hold.
set -eu
cd "$(dirname "$0")/.."
prefix=$1 soname=$2

rm -rf target/wheel
mkdir -p target/wheel
mv "$prefix/bin" target/wheel/scripts
mv "$prefix" target/wheel/data
cd target/wheel/data/lib
cp -L "$soname" library
rm -f libmainstay.so* libmainstay.a
mv library "$soname"
# What the linker takes where a link would be.
echo "INPUT($soname)" >libmainstay.so
