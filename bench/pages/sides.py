"""Ways to save: by `capture`, and by how it is found out what changed."""

from dataclasses import dataclass

COPY, SCAN, CLONE = "copy", "scan", "clone"  # what the machine allows
WHOLE, PAGES, HASHES, SNAPSHOT, BOTH = "whole", "pages", "hashes", "snapshot", "both"
SETTINGS = {
    WHOLE: {"capture": "whole"},
    PAGES: {"capture": "incremental", "track": "pages"},
    HASHES: {"capture": "incremental", "track": "hashes"},
}
CHANGED = (PAGES, HASHES)


@dataclass(frozen=True)
class Side:
    name: str

    @property
    def word(self):
        """As the program takes it."""
        settings = ",".join(f"{key}={value}" for key, value in SETTINGS.get(self.name, {}).items())
        return f"{self.name}:{settings}" if settings else self.name

    def variables(self):
        return [f"MAINSTAY_{key.upper()}={value}" for key, value in SETTINGS[self.name].items()]


def sides(*names):
    return [Side(name) for name in names]
