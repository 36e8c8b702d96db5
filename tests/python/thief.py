"""Another job that waits for its chance. While a job runs, it tries to get all locks of a space at once, as an opening
does. Prints "ready" before it begins, and "got it" if it succeeded while the job had the space.

thief.py LOCKFILE RESULT: the job has the space from its first visible lock until it has written its result.
"""

import fcntl
import os
import struct
import sys
import time

LIMIT_S = 90
RANK_BYTES = 1 << 32

lock, result = sys.argv[1:]
all_bytes = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, RANK_BYTES, 0)
no_bytes = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, RANK_BYTES, 0)
deadline = time.monotonic() + LIMIT_S


def is_locked(file):
    asked = fcntl.fcntl(file, fcntl.F_OFD_GETLK, all_bytes)
    return struct.unpack("hhqqi4x", asked)[0] != fcntl.F_UNLCK


print("ready", flush=True)
while not os.path.exists(lock):
    time.sleep(1e-3)
    assert time.monotonic() < deadline, "no job has come"
file = os.open(lock, os.O_RDWR)
while not is_locked(file):
    assert time.monotonic() < deadline, "no job has taken the space"
while time.monotonic() < deadline:
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, all_bytes)
    except BlockingIOError:
        continue
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, no_bytes)  # the job it was taken from is to go on
    if not os.path.exists(result):
        print("got it", flush=True)
    break
