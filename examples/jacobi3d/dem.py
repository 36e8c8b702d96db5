"""Makes the elevation model that jacobi3d reads from the one that matplotlib ships.

    python dem.py FILE

The file: b"ELEVAT01", columns and rows (u32), width and length in metres (f64),
then the heights in metres (f32), row by row from the south-west corner; all
little-endian.
"""

import math
import struct
import sys

import numpy
from matplotlib.cbook import get_sample_data

METRES_PER_DEGREE = 111_200


def load():
    """The heights, rows from south to north, and the width and length of the area in metres."""
    with get_sample_data("jacksboro_fault_dem.npz") as sample:
        heights = sample["elevation"][::-1].astype("<f4")  # the sample begins in the north
        latitude = (float(sample["ymin"]) + float(sample["ymax"])) / 2
        dx, dy = abs(float(sample["dx"])), abs(float(sample["dy"]))
    rows, columns = heights.shape
    width = columns * dx * METRES_PER_DEGREE * math.cos(math.radians(latitude))
    return heights, width, rows * dy * METRES_PER_DEGREE


def write(path):
    heights, width, length = load()
    rows, columns = heights.shape
    with open(path, "wb") as file:
        file.write(struct.pack("<8sIIdd", b"ELEVAT01", columns, rows, width, length))
        file.write(numpy.ascontiguousarray(heights).tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: dem.py FILE")
    write(sys.argv[1])
