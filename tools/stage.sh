#!/bin/sh
# Prepares in target/wheel the files that the wheel has beside the Python package: the installation of `make install` in
# the folder PREFIX, without links, because wheels cannot hold links.
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
# The linker reads such a file in place of a link.
echo "INPUT($soname)" >libmainstay.so
for link in mainstay/ranks/*/libmpi*.so; do
	real=$(readlink "$link")
	rm "$link"
	echo "INPUT($real)" >"$link"
done
