"""The sides of each case, measured in turns in one job."""

from dataclasses import dataclass, field

from .mix import KIB, MIB

POOL_MIB = 64  # published
CHUNK_MIB = 4  # published
THRESHOLDS_KIB = (16, 64, 256, 512)
POOLS_MIB = (16, 32, 64, 128, 256, 512)
CHUNKS_KIB = (256, 1024, 4096, 16384)
CHUNKS_POOL_MIB = 256
STAGES = ("direct", "node", "rank", "pool")
FLOORS = ("copy", "disk", "buffered")  # what the machine allows
PUBLISHED = "published"
READ = "plain_fsync"  # at a restart: files that are read as they are
FILES = ("plain", "plain_fsync", PUBLISHED)


@dataclass(frozen=True)
class Side:
    """A session with settings; or, without settings, one of the other ways to write."""

    name: str
    settings: dict = field(default_factory=dict)

    @property
    def word(self):
        """The side in the form that the program takes."""
        settings = ",".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name}:{settings}" if settings else self.name

    @property
    def pool_bytes(self):
        """The pool of the node; stages without a pool take none."""
        return self.settings["pool_bytes"] if self.settings["stage"] in ("node", "pool") else 0


def session(name, stage, pool_mib=POOL_MIB, chunk_kib=CHUNK_MIB * 1024, **more):
    return Side(name, {"stage": stage, "pool_bytes": pool_mib * MIB, "chunk_bytes": chunk_kib * KIB, **more})


DIRECT = session("direct", "direct")


def floors():
    return [Side(name) for name in FLOORS]


def files():
    return [Side(name) for name in FILES]


def against():
    """The references in every job."""
    return [*floors(), DIRECT]


def stages():
    return [session(stage, stage) for stage in STAGES]


def thresholds(stage, chosen):
    """Thresholds in KiB, and the threshold that the library finds."""
    found = session(f"{stage}_auto", stage, threshold_bytes="auto")
    return [*(session(f"{stage}_{kib}", stage, threshold_bytes=kib * KIB) for kib in chosen), found]


def pools(chosen):
    """In MiB."""
    return [session(f"pool_{mib}", "pool", pool_mib=mib) for mib in chosen]


def chunks(chosen):
    """In KiB. The pool has enough of the largest chunks for all ranks."""
    return [session(f"chunk_{kib}", "pool", pool_mib=CHUNKS_POOL_MIB, chunk_kib=kib) for kib in chosen]


def memory(chosen):
    """Stages, and thresholds in KiB."""
    stages = [session(stage, stage) for stage in ("direct", "pool")]
    return [*stages, *thresholds("node", chosen), *thresholds("rank", chosen)]
