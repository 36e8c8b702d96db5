"""The places of the parts in a layout file, from docs/format.md; enough to change them."""

import struct
from pathlib import Path

BLOCK = 4096


class Layout:
    def __init__(self, space):
        (self.path,) = Path(space).glob("layout-*.mainstay")
        self.bytes = bytearray(self.path.read_bytes())

    def write(self):
        self.path.write_bytes(self.bytes)

    def flip(self, at):
        self.bytes[at] ^= 0x10

    def number(self, at):
        return struct.unpack_from("<Q", self.bytes, at)[0]

    def portion(self, rank):
        return self.number(BLOCK + 24 * rank + 8)

    def slot(self, rank, index):
        return self.portion(rank) + index * self.number(72)

    def newest_slot(self, rank):
        return max((self.slot(rank, index) for index in (0, 1)), key=lambda at: self.number(at + 16))

    def catalogue(self, rank):
        return self.portion(rank) + self.number(self.newest_slot(rank) + 72)

    def manifest(self, rank, revision):
        catalogue = self.catalogue(rank)
        entries = struct.unpack_from("<I", self.bytes, catalogue + 12)[0]
        entry = next(
            e for e in range(catalogue + 16, catalogue + 16 + 256 * entries, 256) if self.number(e + 24) == revision
        )
        return self.portion(rank) + self.number(entry + 56)

    def data(self, rank, revision):
        return self.portion(rank) + BLOCK * self.number(self.manifest(rank, revision) + 64)

    def hashes(self, rank, revision):
        return self.portion(rank) + self.number(self.manifest(rank, revision) + 64 + 16)
