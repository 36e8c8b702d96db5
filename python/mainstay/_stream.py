"""Streams as files, for Session.open."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from mainstay._engine import InvalidArgument, Session

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


def open_stream(session: Session, name: str, mode: str) -> io.BufferedReader | io.BufferedWriter:
    if mode == "rb":
        return io.BufferedReader(Stream(session, name, mode))
    if mode == "wb":
        return io.BufferedWriter(Stream(session, name, mode))
    raise InvalidArgument(f"mode: {mode!r} is none of a stream; open it with 'wb' or 'rb'")


class Stream(io.RawIOBase):
    """A stream as a file without a buffer. It is useful until the next checkpoint or restore."""

    def __init__(self, session: Session, name: str, mode: str) -> None:
        self.name, self.mode = name, mode
        self._session, self._moment = session, session._moment  # type: ignore[attr-defined]
        self._at = 0
        if mode == "wb":
            session.write(name, 0, b"")  # the stream exists, even if it stays empty
        else:
            session.read(name, 0, 0)  # an error that lists the existing streams

    def readable(self) -> bool:
        return self.mode == "rb"

    def writable(self) -> bool:
        return self.mode == "wb"

    def seekable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        session, written = self._use("wb"), memoryview(data).nbytes
        session.write(self.name, self._at, data)
        self._at += written
        return written

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        got = self._use("rb").readinto(self.name, self._at, buffer)
        self._at += got
        return got

    def readall(self) -> bytes:
        rest = self._use("rb").read(self.name, self._at)
        self._at += len(rest)
        return rest

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """The end is that of the stream: for a writer, the end of all bytes written since begin(), by any writer."""
        session = self._use(self.mode)
        if whence == io.SEEK_CUR:
            offset += self._at
        elif whence == io.SEEK_END:
            offset += session._end(self.name, self.mode)  # type: ignore[attr-defined]
        elif whence != io.SEEK_SET:
            raise InvalidArgument(f"whence: {whence} is none; it takes io.SEEK_SET, SEEK_CUR or SEEK_END")
        if offset < 0:
            raise InvalidArgument(f"offset: {offset} is before the stream; its first byte has offset 0")
        self._at = offset
        return offset

    def _use(self, mode: str) -> Session:
        if self.closed:
            raise InvalidArgument(f"stream {self.name!r}: the file is closed; open it anew")
        if mode != self.mode:
            raise io.UnsupportedOperation(f"stream {self.name!r} was opened with {self.mode!r}")
        if self._session._moment != self._moment:  # type: ignore[attr-defined]
            why = "a checkpoint or a restore has come since the file was opened; open it anew"
            raise InvalidArgument(f"stream {self.name!r}: {why}")
        return self._session
