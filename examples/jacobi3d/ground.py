"""The physics: heat that moves through rock, below air of a fixed temperature. ground.c and elevation.c in Python.

Each number comes from the same operations in the same order as there, so that the fields are the same bits.
"""

import struct

import numpy
from grid import INSIDE
from stop import stop

DEPTH_M = 1500  # of the grid below the lowest valley
HEADROOM_M = 60  # of air above the highest peak
SEA_LEVEL_C = 14  # air, over the year
LAPSE_C_PER_M = 6.5e-3  # air, the higher the colder
HEAT_FLUX_W_PER_M2 = 65e-3  # from below
CONDUCTIVITY_W_PER_MK = 2.5
DIFFUSIVITY_M2_PER_S = 1.1e-6
DAMPING = 0.9  # of 1, where a plain Jacobi sweep would let a chequerboard live
SECONDS_PER_YEAR = 365.25 * 86400

HEADER = struct.Struct("<8sIIdd")  # as dem.py writes it
SAMPLES_MAX = 1 << 14


class Elevation:
    """The shape of the surface, from the file that dem.py makes. Rank 0 reads, all get it."""

    def __init__(self, comm, path):
        read = self._read(path) if comm.rank == 0 else None
        self.width_m, self.length_m, self._heights_m = comm.bcast(read)
        self.lowest_m, self.highest_m = float(self._heights_m.min()), float(self._heights_m.max())

    @staticmethod
    def _read(path):
        try:
            with open(path, "rb") as file:
                head, rest = file.read(HEADER.size), file.read()
        except OSError as error:
            stop(f"{path}: {error.strerror}")
        if len(head) < HEADER.size:
            stop(f"{path}: too short for an elevation model")
        magic, columns, rows, width_m, length_m = HEADER.unpack(head)
        if magic != b"ELEVAT01":
            stop(f"{path}: not an elevation model; make one with dem.py")
        if not (2 <= columns <= SAMPLES_MAX and 2 <= rows <= SAMPLES_MAX):
            stop(f"{path}: {columns} x {rows} heights; 2 to {SAMPLES_MAX} each way are possible")
        if not (0 < width_m < 1e8 and 0 < length_m < 1e8):
            stop(f"{path}: covers {width_m:g} x {length_m:g} m, which cannot be")
        if len(rest) != 4 * columns * rows:
            stop(f"{path}: {'cut short' if len(rest) < 4 * columns * rows else 'longer than its header says'}")
        heights_m = numpy.frombuffer(rest, "<f4").astype("f8")
        odd = ~(numpy.abs(heights_m) < 1e4)  # true for a NaN too
        if odd.any():
            stop(f"{path}: height {odd.argmax()} is {heights_m[odd.argmax()]:g} m")
        return width_m, length_m, heights_m.reshape(rows, columns)

    def at(self, east, north):
        """Heights [east, north] at places given as fractions of width and length."""
        rows, columns = self._heights_m.shape
        column, u = self._locate(east, columns)
        row, v = self._locate(north, rows)
        column, u = column[:, None], u[:, None]
        south_side = (1 - u) * self._heights_m[row, column] + u * self._heights_m[row, column + 1]
        north_side = (1 - u) * self._heights_m[row + 1, column] + u * self._heights_m[row + 1, column + 1]
        return (1 - v) * south_side + v * north_side

    @staticmethod
    def _locate(fraction, samples):
        """The sample before each place, and the weight of the one after."""
        place = numpy.clip(fraction * samples - 0.5, 0, samples - 1)
        before = numpy.minimum(place, samples - 2).astype(int)
        return before, place - before


def air_c(height_m):
    return SEA_LEVEL_C - LAPSE_C_PER_M * height_m


class Ground:
    """Where there is rock in this rank's block, and how heat moves through it."""

    def __init__(self, grid, surface):
        self._grid = grid
        bottom_m = surface.lowest_m - DEPTH_M
        extent_m = surface.width_m, surface.length_m, surface.highest_m + HEADROOM_M - bottom_m
        cell_m = [extent / cells for extent, cells in zip(extent_m, grid.cells)]
        inverse = [1 / (size * size) for size in cell_m]
        total = inverse[0] + inverse[1] + inverse[2]
        self._weights = [DAMPING * each / (2 * total) for each in inverse]
        self._itself = 1 - DAMPING
        self._below = HEAT_FLUX_W_PER_M2 / CONDUCTIVITY_W_PER_MK * cell_m[2]  # how much warmer it is one cell below
        # Such a sweep is also an explicit step of the heat equation over this time.
        self.sweep_years = DAMPING / (2 * total * DIFFUSIVITY_M2_PER_S) / SECONDS_PER_YEAR

        # The heights of the centres of the cells; 0 is the low ghost of the block.
        up = numpy.arange(grid.stored[2])
        height_m = bottom_m + (grid.start[2] + up - 0.5) * cell_m[2]
        east, north = ((grid.start[d] + numpy.arange(grid.size[d]) + 0.5) / grid.cells[d] for d in range(2))
        surface_m = surface.at(east, north)
        columns = numpy.searchsorted(height_m[1:-1], surface_m)  # how many cells of each are rock
        is_rock = up <= numpy.pad(columns, 1, mode="edge")[:, :, None]
        self.rock = is_rock[INSIDE].copy()
        self._sum, self._pair = numpy.empty(grid.size), numpy.empty(grid.size)

        # The start is a plateau as high as the highest peak, warmer with depth, from which the valleys
        # have been cut a moment ago: far from any equilibrium.
        gradient = self._below / cell_m[2]
        warm = air_c(surface.highest_m) + gradient * (surface.highest_m - height_m)
        self.start = numpy.where(is_rock, warm, air_c(height_m))

    def _fill_border(self, field):
        """The ghosts outside the whole grid. No heat passes the sides; some comes from below; those above are
        air, which keeps its temperature."""
        for side in range(2):
            ghosts = field if side == 0 else field[1:-1].swapaxes(0, 1)
            low, high = self._grid.is_border(side)
            if low:
                ghosts[0] = ghosts[1]
            if high:
                ghosts[-1] = ghosts[-2]
        if self._grid.is_border(2)[0]:
            field[1:-1, 1:-1, 0] = field[1:-1, 1:-1, 1] + self._below

    def sweep(self, source, target):
        """One Jacobi sweep: fills the ghosts of the field `source`, then computes the field `target` from it."""
        self._grid.exchange(source)
        self._fill_border(source)
        total, pair = self._sum, self._pair
        numpy.multiply(source[INSIDE], self._itself, out=total)
        for side, weight in enumerate(self._weights):
            before, after = list(INSIDE), list(INSIDE)
            before[side], after[side] = slice(None, -2), slice(2, None)
            numpy.add(source[tuple(before)], source[tuple(after)], out=pair)
            pair *= weight
            total += pair
        numpy.copyto(target[INSIDE], total, where=self.rock)
