"""The programs, and the ways to save them."""

from dataclasses import dataclass

POOL_MIB = 64


@dataclass(frozen=True)
class Side:
    """One way to run: without checkpoints, or with Mainstay's settings."""

    name: str
    settings: tuple = ()
    asked: bool = False  # it is what the target is for
    quick: bool = True  # also in a quick benchmark

    def variables(self):
        return [f"MAINSTAY_{name.upper()}={value}" for name, value in self.settings]


NONE = Side("none")


def rank(kib):
    return Side(f"rank, {kib} KiB", (("stage", "rank"), ("threshold_bytes", kib * 2**10)), quick=False)


def pool(mib):
    return Side(f"pool, {mib} MiB", (("stage", "pool"), ("pool_bytes", mib * 2**20)), True, mib == POOL_MIB)


SIDES = (
    NONE,
    *(Side(stage, (("stage", stage),)) for stage in ("direct", "node", "rank")),
    *(rank(kib) for kib in (16, 64, 256, 512)),
    *(pool(mib) for mib in (16, 32, POOL_MIB, 128, 256, 512)),
)


@dataclass(frozen=True)
class Program:
    """An example, and a grid of which each rank saves about 40 MB, as a process of BT.C.64 does."""

    name: str
    cells: tuple  # of a rank
    bytes_each: int
    more: tuple = ()  # words

    def grid(self, o):
        nx, ny, nz = self.cells
        return nx, ny, max(nz * o.ranks // o.part, 3 * o.ranks)

    def words(self, o, steps):
        nx, ny, nz = self.grid(o)
        return [*self.more, "--nx", nx, "--ny", ny, "--nz", nz, "--steps", steps, "--progress", steps]

    def case(self, o):
        nx, ny, nz = self.grid(o)
        return f"{self.name}, {o.ranks} x {nx * ny * nz * self.bytes_each / o.ranks / 1e6:.0f} MB"


PROGRAMS = (Program("jacobi3d", (192, 192, 136), 8, ("--dem", "dem")), Program("adi", (128, 128, 64), 40))
