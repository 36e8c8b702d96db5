"""Ways to save: by `capture`, and by the way to find changes."""

from dataclasses import dataclass

COPY, SCAN, LIST, CLONE = "copy", "scan", "list", "clone"  # what the machine allows
WHOLE, PAGES, HASHES, SNAPSHOT, BOTH = "whole", "pages", "hashes", "snapshot", "both"
HUGE = "huge_"  # how the names of sides begin whose memory Mainstay allocates, in pages of 2 MiB
FORCED = "_forced"  # how those end that take a snapshot also where a plain copy makes the program wait for less
SETTINGS = {
    WHOLE: {"capture": "whole"},
    PAGES: {"capture": "incremental", "track": "pages"},
    HASHES: {"capture": "incremental", "track": "hashes"},
    SNAPSHOT: {"capture": "snapshot"},
    BOTH: {"capture": "incremental-snapshot"},
}
CHANGED = (PAGES, HASHES)


@dataclass(frozen=True)
class Side:
    name: str

    @property
    def word(self):
        """As the program takes it."""
        settings = ",".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name}:{settings}" if settings else self.name

    @property
    def settings(self):
        settings = SETTINGS.get(self.name.removeprefix(HUGE).removesuffix(FORCED), {})
        return {**settings, "snapshot_bytes": 0} if self.name.endswith(FORCED) else settings

    def variables(self):
        return [f"MAINSTAY_{key.upper()}={value}" for key, value in self.settings.items()]


def sides(*names):
    return [Side(name) for name in names]
