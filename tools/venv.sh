#!/bin/sh
# Makes a Python environment: venv.sh FOLDER LOCK, such as .venv requirements.lock. PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")/.."
folder=$1
lock=$2
sh tools/check.sh python

echo "Making $folder from $lock"
"${PYTHON:-python3}" -m venv --clear "$folder"
# Installs wheels only: nothing is compiled, and only packages in the lock are installed.
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    --require-hashes --only-binary :all: -r "$lock" || {
    echo "The packages of $lock could not be installed; see pip's message above." >&2
    echo "They come from the package index that pip is configured for: is it in reach?" >&2
    exit 1
}
# This mark comes last: an interrupted environment is made again.
touch "$folder/ready"
