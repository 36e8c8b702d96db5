#!/bin/sh
# Makes the Python environment .venv from requirements.lock; PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")/.."
tools/check.sh python

echo "Making .venv from requirements.lock"
"${PYTHON:-python3}" -m venv --clear .venv
# Wheels only: nothing is compiled, and what is installed is what the lock names.
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --require-hashes --only-binary :all: -r requirements.lock || {
    echo "The packages of requirements.lock could not be installed; see pip's message above." >&2
    echo "They come from the package index that pip is configured for: is it in reach?" >&2
    exit 1
}
# Last, so that what was broken off is made anew.
touch .venv/ready
