"""As writer.c, for the libraries of Python: writer.py PATTERN PATH BYTES SYNC."""

import os
import sys
import time

import h5py
import numpy as np

CHUNK = 1 << 20


def write_hdf5(path, data, chunks):
    with h5py.File(path, "w") as file:
        file.create_dataset("field", data=data, chunks=chunks)


def write_npz(path, data):
    np.savez(path, field=data)


PATTERNS = {
    "h5py": lambda path, data: write_hdf5(path, data, None),
    "h5py in chunks": lambda path, data: write_hdf5(path, data, (CHUNK // 8,)),
    "np.savez": write_npz,
}


def main():
    pattern, path, size, syncs = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1"
    data = np.empty(size // 8)
    for turn, _ in enumerate(sys.stdin, 1):
        data.fill(turn)
        before = time.monotonic()
        PATTERNS[pattern](path, data)
        if syncs:
            file = os.open(path, os.O_RDWR)
            os.fsync(file)
            os.close(file)
        print(before, time.monotonic(), flush=True)


main()
