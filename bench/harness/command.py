"""The command `mainstay`, as it was built."""

import json
import subprocess

from .mpi import MAINSTAY

LIMIT_S = 60


def document(*words):
    """The JSON document that the command prints."""
    words = [str(word) for word in (MAINSTAY, *words, "--json")]
    return json.loads(subprocess.run(words, check=True, capture_output=True, timeout=LIMIT_S).stdout)
