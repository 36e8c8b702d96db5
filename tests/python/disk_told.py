"""A job of one rank with a level on a disk beside the space: disk_told.py SPACE DISK STEPS

Restores, then saves after each step. Prints the revision once the status of the space has it, and waits to be killed.
"""

import json
import os
import sys
import time

os.environ["MAINSTAY_DISK"], os.environ["MAINSTAY_PFS_EVERY"] = sys.argv[2], "100"

import mainstay  # noqa: E402
import numpy  # noqa: E402

WAITS = 600
values = numpy.zeros(100_000)
with mainstay.open(sys.argv[1]) as session:
    session.protect("values", values)
    if restored := session.restore():
        print(f"restored {restored.revision}", flush=True)
    for step in range(int(sys.argv[3])):
        values += 1
        revision = session.checkpoint()
        session.wait()
    for _ in range(WAITS):
        time.sleep(0.1)
        with open(os.path.join(sys.argv[1], "status")) as status:
            told = [one["revision"] for level in json.load(status)["levels"] for one in level["complete"]]
        if revision in told:
            print(f"told {revision}", flush=True)
            break
    time.sleep(60)
