#!/bin/sh
# Removes the parts of an installation, PREFIX, that only a debugger needs: under 30 MB of 290 remain. STRIP names the
# tool. If it is empty, or without binutils, the files stay as they were built.
#
# Most bytes of the static library are names: of sections, one for each function, and of symbols that no program may
# use. So its objects are linked to one object with the functions that the interface reaches. Only the names of the
# interface stay global.
set -eu
prefix=$1 strip=${2-}
here=$(cd "$(dirname "$0")" && pwd)

if [ -z "$strip" ] || ! command -v "$strip" >/dev/null; then
	echo "Not stripped: ${strip:-STRIP is empty}${strip:+ is not there}" >&2
	exit 0
fi

one_object() {
	nm -D --defined-only "$prefix/lib/libmainstay.so" | awk '{ print $3 }' >"$work/names" &&
		test -s "$work/names" &&
		ld -r --gc-sections $(sed 's/^/-u /' "$work/names") -T "$here/strip.ld" -o "$work/all.o" "$prefix/lib/libmainstay.a" &&
		objcopy --strip-debug --keep-global-symbols="$work/names" "$work/all.o" "$work/mainstay.o" &&
		"$strip" --strip-unneeded "$work/mainstay.o" &&
		ar rcs "$work/libmainstay.a" "$work/mainstay.o"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if one_object 2>"$work/why"; then
	cat "$work/libmainstay.a" >"$prefix/lib/libmainstay.a"
else
	# Linkers other than GNU's may be unable to make one object.
	"$strip" --strip-debug "$prefix/lib/libmainstay.a"
fi
"$strip" --strip-unneeded "$(readlink -f "$prefix/lib/libmainstay.so")"
"$strip" "$prefix/bin/mainstay"
