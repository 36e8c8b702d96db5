"""Where things lie in the file of a pool (engine/src/pool/layout.rs); enough to read it and to do it harm."""

import struct

CONTROL = slice(4096, 8192)
CHUNK_TABLE = 8192
ENTRY = 64
STATES = ["free", "filling", "full", "writing", "written"]  # of a chunk


class Pool:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.chunks, self.members = struct.unpack_from("=II", file.read(80), 40)
            file.seek(CHUNK_TABLE)
            self.table = file.read(ENTRY * self.chunks)

    def held(self):
        """State and member of each chunk that is somebody's."""
        for at in range(0, ENTRY * self.chunks, ENTRY):
            state, member = struct.unpack_from("=HH", self.table, at)
            if state:
                yield STATES[state], member
