"""One process of a random program (tests/crossed.py): does the steps that the test sends it, one by one.

Words: the socket of the test, the name of this actor, and the descriptors that it has inherited, by slot."""

import ctypes
import json
import mmap
import os
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
for function, types in (("fputs", [ctypes.c_char_p, ctypes.c_void_p]), ("fflush", [ctypes.c_void_p]),
                        ("fclose", [ctypes.c_void_p]), ("fseek", [ctypes.c_void_p, ctypes.c_long, ctypes.c_int])):  # fmt: skip
    getattr(libc, function).argtypes = types
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def checked(result):
    if result == -1 or result is None:
        raise OSError(ctypes.get_errno(), "")
    return result


class Actor:
    def __init__(self, address, name, slots):
        self.address, self.slots, self.streams, self.maps = address, slots, {}, {}
        self.meet(name)

    def meet(self, name):
        """Connects with the test."""
        self.name = name
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(self.address)
        self.lines = self.connection.makefile("rw", buffering=1)
        self.say([name, os.getpid()])

    def say(self, words):
        self.lines.write(json.dumps(words) + "\n")
        self.lines.flush()

    def live(self):
        for line in iter(self.lines.readline, ""):
            step, *words = json.loads(line)
            try:
                self.say([0, getattr(self, step)(*words)])
            except OSError as error:
                self.say([error.errno, None])
        os._exit(1)

    def open(self, slot, path, flags):
        self.slots[slot] = os.open(path, flags, 0o644)

    def write(self, slot, text):
        os.write(self.slots[slot], text.encode())

    def pwrite(self, slot, text, at):
        os.pwrite(self.slots[slot], text.encode(), at)

    def cut(self, slot, size):
        os.ftruncate(self.slots[slot], size)

    def sync(self, slot):
        os.fsync(self.slots[slot])

    def dup(self, slot, copy):
        self.slots[copy] = os.dup(self.slots[slot])

    def close(self, slot):
        os.close(self.slots.pop(slot))

    def reopen(self, slot, copy):
        """A second descriptor, by the name of the first one in /dev/fd."""
        self.slots[copy] = os.open(f"/dev/fd/{self.slots[slot]}", os.O_WRONLY)

    def map(self, slot, key, size):
        os.ftruncate(self.slots[slot], size)
        self.maps[key] = (
            mmap.mmap(self.slots[slot], size, trackfd=False)
            if sys.version_info >= (3, 13)
            else mmap.mmap(self.slots[slot], size)
        )

    def store(self, key, text):
        self.maps[key][: len(text)] = text.encode()

    def unmap(self, key):
        self.maps.pop(key).close()

    def fopen(self, slot, path, mode):
        self.streams[slot] = checked(libc.fopen(path.encode(), f"{mode}e".encode()))

    def fputs(self, slot, text):
        checked(libc.fputs(text.encode(), self.streams[slot]))
        checked(libc.fflush(self.streams[slot]))

    def fclose(self, slot):
        checked(libc.fclose(self.streams.pop(slot)))

    def read(self, path):
        with open(path) as file:
            return file.read()

    def size(self, path):
        return os.stat(path).st_size

    def list(self, path):
        return sorted(os.listdir(path))

    def truncate(self, path, size):
        os.truncate(path, size)

    def rename(self, old, new):
        os.rename(old, new)

    def exchange(self, old, new):
        checked(libc.renameat2(AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), RENAME_EXCHANGE))

    def link(self, old, new):
        os.link(old, new)

    def unlink(self, path):
        os.unlink(path)

    def mkdir(self, path):
        os.mkdir(path)

    def fork(self, name):
        if os.fork():
            return
        # The lines that were read, and the connection, are the parent's.
        os.close(self.connection.detach())
        self.meet(name)
        self.live()

    def words(self, name, kept):
        for slot, fd in self.slots.items():
            os.set_inheritable(fd, slot in kept)
        kept = {slot: self.slots[slot] for slot in kept}
        return [sys.executable, "-S", "-E", __file__, self.address, name, json.dumps(kept)]

    def spawn(self, name, kept):
        """Another program inherits these slots."""
        words = self.words(name, kept)
        os.posix_spawn(sys.executable, words, os.environ)
        self.words(name, [])

    def exec(self, kept):
        os.execv(sys.executable, self.words(self.name, kept))

    def exit(self, status):
        sys.exit(status)

    def leave(self, status):
        os._exit(status)


if __name__ == "__main__":
    Actor(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])).live()
