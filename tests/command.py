"""Documents and exports of the command `mainstay`."""

import json
import subprocess

import numpy
from limits import LIMIT_S
from mpi import BUILT

MAINSTAY = BUILT / "mainstay"


def mainstay(command, *arguments, code=0):
    """The output of `mainstay COMMAND ARGUMENTS --json`."""
    words = [MAINSTAY, command, *map(str, arguments), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == code, done
    return json.loads(done.stdout) if done.stdout else done.stderr


def arrays(folder, document):
    """The exported arrays in the folder, item by item, shard by shard, read by numpy."""
    return {(f["shard"], f["item"]): numpy.load(folder / f["file"], allow_pickle=False) for f in document["files"]}
