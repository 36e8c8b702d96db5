"""The stages in which a program is saved, with the settings of papers 000 and 003."""

from dataclasses import dataclass

POOL_MIB = 64


@dataclass(frozen=True)
class Side:
    name: str
    settings: tuple = ()
    quick: bool = False  # also in a quick benchmark

    def variables(self):
        return {f"MAINSTAY_{name}": value for name, value in self.settings}


def at(stage, kib):
    settings = (("STAGE", stage), ("THRESHOLD_BYTES", kib << 10), ("POOL_BYTES", POOL_MIB << 20))
    return Side(f"{stage}_{kib}", settings, kib == 64)


def pool(mib):
    return Side(f"pool_{mib}", (("STAGE", "pool"), ("POOL_BYTES", mib << 20)), mib == POOL_MIB)


NONE = Side("none")
DIRECT = Side("direct", (("STAGE", "direct"),), True)
THRESHOLDS_KIB = (16, 64, 256, 512)
POOLS_MIB = (16, 32, 64, 128, 256, 512)
ALL = (
    DIRECT,
    *(at(stage, kib) for stage in ("node", "rank") for kib in THRESHOLDS_KIB),
    *(pool(mib) for mib in POOLS_MIB),
)


def chosen(words, quick):
    named = (side for side in ALL if side == DIRECT or any(word in side.name for word in words))
    return [side for side in named if side.quick or not quick]
