"""The grid, cut into one block a rank, and the exchange between the blocks: grid.c in Python.

A rank stores its block with one layer of ghost cells around it, as an array [east, north, up].
"""

from math import prod

from mpi4py import MPI
from stop import stop

INSIDE = (slice(1, -1),) * 3  # a stored array without its ghosts


class Grid:
    """`cells` of the whole grid, `start` and `size` of this rank's block in it: east, north, up."""

    def __init__(self, world, cells):
        self.cells = tuple(cells)
        self.blocks = MPI.Compute_dims(world.size, 3)
        self.comm = world.Create_cart(self.blocks, periods=[False] * 3, reorder=False)
        for side, (count, blocks) in enumerate(zip(self.cells, self.blocks)):
            if count < blocks:
                stop(f"{count} cells along side {side + 1} are too few for {blocks} ranks")
        here = list(zip(self.cells, self.blocks, self.comm.coords))
        self.start = tuple(count * block // blocks for count, blocks, block in here)
        ends = (count * (block + 1) // blocks for count, blocks, block in here)
        self.size = tuple(end - start for start, end in zip(self.start, ends))
        self.stored = tuple(size + 2 for size in self.size)
        self.neighbours = [self.comm.Shift(side, 1) for side in range(3)]  # low and high
        self._faces = [
            [self._face(side, layer) for layer in (0, 1, self.size[side], self.size[side] + 1)] for side in range(3)
        ]

    def _face(self, side, layer):
        """One layer of cells, `layer` along `side`, as MPI sees it in the stored array."""
        size, start = list(self.size), [1, 1, 1]
        size[side], start[side] = 1, layer
        return MPI.DOUBLE.Create_subarray(self.stored, size, start).Commit()

    def is_border(self, side):
        """Whether the block ends where the whole grid ends: low, high."""
        return [neighbour == MPI.PROC_NULL for neighbour in self.neighbours[side]]

    def exchange(self, field):
        """Fills the ghosts that are cells of another rank."""
        for (low, high), (low_ghost, low_face, high_face, high_ghost) in zip(self.neighbours, self._faces):
            # Neither Sendrecv nor Isend: those of Open MPI 5.0.11 can crash in a rank that hears in them that others recover.
            coming = [self.comm.Irecv([field, 1, high_ghost], high, 0), self.comm.Irecv([field, 1, low_ghost], low, 1)]
            self.comm.Send([field, 1, low_face], low, 0)
            self.comm.Send([field, 1, high_face], high, 1)
            MPI.Request.Waitall(coming)

    def write(self, field, path):
        """Writes the whole field in global order: the same bytes for any number of ranks."""
        place = MPI.DOUBLE.Create_subarray(self.cells, self.size, self.start).Commit()
        try:
            file = MPI.File.Open(self.comm, path, MPI.MODE_CREATE | MPI.MODE_WRONLY)
            file.Set_size(prod(self.cells) * field.itemsize)  # an older file may be longer
            file.Set_view(0, MPI.DOUBLE, place)
            file.Write_all(field[INSIDE].copy())
            file.Close()
        except MPI.Exception as error:
            stop(f"{path}: {error}")
        place.Free()
