"""The places of the parts in a pool's file (engine/src/pool/layout.rs); enough to read and to damage it."""

import struct

CONSTANTS = 88
CONTROL, CONTROL_BYTES = 4096, 384
MEMBER_TABLE = 8192
BLOCK = 4096
ENTRY = 64
STATES = ["free", "filling", "full", "writing", "written"]  # of a chunk


class Pool:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            # One that is being made is empty, or has zeros there.
            self.chunks, self.members = struct.unpack_from("=II", file.read(80).ljust(80, b"\0"), 40)
            end = MEMBER_TABLE + ENTRY * self.members
            self.chunk_table = -(-end // BLOCK) * BLOCK
            file.seek(self.chunk_table)
            self.table = file.read(ENTRY * self.chunks)

    def held(self):
        """State and member of each chunk that has a member."""
        for at in range(0, ENTRY * self.chunks, ENTRY):
            state, member = struct.unpack_from("=HH", self.table, at)
            if state:
                yield STATES[state], member

    def parts(self):
        """The places of all parts except the chunks: constants, control block, tables of chunks and members."""
        yield range(CONSTANTS)
        yield range(CONTROL, CONTROL + CONTROL_BYTES)
        yield range(self.chunk_table, self.chunk_table + ENTRY * self.chunks)
        yield range(MEMBER_TABLE, MEMBER_TABLE + ENTRY * self.members)

    def overwrite(self, at, data):
        with open(self.path, "r+b") as file:
            file.seek(at)
            file.write(data)

    def claim_all(self, state, member):
        """Has every chunk say that it is in `state` and `member`'s."""
        for index in range(self.chunks):
            self.overwrite(self.chunk_table + ENTRY * index, struct.pack("=HHI", STATES.index(state), member, 1))


def flip(path, parts, random, count):
    """Changes `count` bytes of a file, each in one of `parts`."""
    with open(path, "r+b") as file:
        for _ in range(count):
            at = random.choice(random.choice(parts))
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ random.choice([1, 2, 4, 128, 255])]))
