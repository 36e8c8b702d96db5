"""The command `mainstay`, asked for documents, and what it exports."""

import json
import subprocess

import numpy
from limits import LIMIT_S
from mpi import BUILT

MAINSTAY = BUILT / "mainstay"


def mainstay(command, *arguments, code=0):
    """What `mainstay COMMAND ARGUMENTS --json` says."""
    words = [MAINSTAY, command, *map(str, arguments), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == code, done
    return json.loads(done.stdout) if done.stdout else done.stderr


def arrays(folder, document):
    """Item by item, shard by shard, as numpy reads what was exported into the folder."""
    return {(f["shard"], f["item"]): numpy.load(folder / f["file"], allow_pickle=False) for f in document["files"]}
