"""The file systems that are measured."""

import os
from collections import Counter

FOLDERS = 4  # as in files.c


class Local:
    """A folder of a local file system: one node."""

    counts = False
    servers = 0  # of metadata

    def __init__(self, mounts, lazy=()):
        """`lazy`: as many mounts of the same file system, with lazy I/O."""
        self.mounts, self.lazy = mounts, lazy

    def make_folders(self, name):
        """Makes a new folder with the entries that files.c needs. Returns its paths: one for each mount, and one for
        each lazy mount."""
        first = self.mounts[0] / name
        first.mkdir()
        for at in range(FOLDERS):
            (first / str(at)).mkdir()
        return [mount / name for mount in self.mounts], [mount / name for mount in self.lazy]

    def counters(self):
        return Counter()

    def settle(self):
        """Waits until all earlier operations are done."""


class Ceph(Local):
    counts = True

    def __init__(self, made, servers, lazy):
        super().__init__(made.mounts[: len(made.mounts) - len(lazy)], lazy)
        self._made, self.servers = made, servers

    def make_folders(self, name):
        folders = super().make_folders(name)
        if self.servers > 1:
            # CephFS would spread them by itself only after some time.
            for at in range(FOLDERS):
                os.setxattr(folders[0][0] / str(at), "ceph.dir.pin", str(at % self.servers).encode())
        return folders

    def counters(self):
        return self._made.counters()

    def settle(self):
        self._made.await_removed()
