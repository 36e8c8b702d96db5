#!/bin/sh
# Installs the missing commands among the given ones, if possible. Each comes from the Debian package of its name, or
# from PACKAGE in COMMAND:PACKAGE. Afterwards tools/check.sh reports the commands that are still missing.
packages=
for name in "$@"; do
    command -v "${name%:*}" >/dev/null || packages="$packages ${name#*:}"
done
if [ -n "$packages" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing$packages by apt-get"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # one word each
    { apt-get -qq update && apt-get -qq install --yes --no-install-recommends $packages; } >/dev/null ||
        echo "apt-get could not install:$packages" >&2
fi
