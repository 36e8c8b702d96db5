"""The interface of PFS-delegation: each rank writes a buffer as the next revision, and reads any revision that is
kept.

    from mainstay import pfs

    with pfs.open("space", comm, count=field.nbytes, info={"striping_factor": "4"}) as space:
        space.read(field)  # the last valid revision; None: there is none
        ...
        space.write(field)  # durable on all ranks when it returns the revision's number
        space.read(field, revision=3)

Arteaga and Zhao, Towards Scalable Application Checkpointing with Parallel File System Delegation, section IV. The C
interface is mainstay_pfs.h. All calls are collective; an error on one rank is raised on all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mainstay

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from _typeshed import ReadableBuffer, WriteableBuffer
    from mainstay._engine import _Array
    from mpi4py import MPI

__all__ = ["Space", "open"]

ITEM = "buffer"  # as in mainstay_pfs.h: each interface reads the revisions of the other


def open(
    path: str | os.PathLike[str],
    comm: MPI.Intracomm | None = None,
    *,
    count: int | None = None,
    info: Mapping[str, str] | MPI.Info | None = None,
    **settings: Any,
) -> Space:
    """Opens the delegated space in the directory `path`. Makes the directory if it is missing.

    `count` is the most bytes that this rank is going to write at once: a new space has room for so many in each of
    keep + 2 revisions. Without it, the first write sets the size. `info`, an MPI.Info or any mapping, has hints:
    striping_factor, striping_unit and cb_nodes, and mainstay_ before the name of a setting. Other hints are ignored.
    `settings` are those of mainstay.open.
    """
    return Space(mainstay.open(path, comm, shard_bytes=count, hints=info, **settings))


class Space:
    """An open delegated space; `open` makes it."""

    def __init__(self, session: mainstay.Session) -> None:
        self._session = session

    @property
    def session(self) -> mainstay.Session:
        """The session, for all other calls."""
        return self._session

    def write(self, buffer: ReadableBuffer | _Array) -> int:
        """Writes the bytes of `buffer` as this rank's part of the next revision, and returns its number once it is
        complete and durable on all ranks. The number of bytes may differ between ranks, and between revisions."""
        return self._session.put(ITEM, buffer)

    def read(self, into: WriteableBuffer | _Array, *, revision: int | None = None) -> mainstay.Got | None:
        """Reads the bytes that this rank wrote in the last valid revision, or in that of this number, into the
        beginning of `into`. Every byte is verified. `into` may be larger, not smaller. `None`: nothing was written
        yet. If the revision does not exist, RevisionMissing lists the existing ones."""
        return self._session.get(ITEM, into, revision)

    def size(self, *, revision: int | None = None) -> int | None:
        """The number of bytes that read() has for this rank; `None`: nothing was written yet."""
        return self._session.get_bytes(ITEM, revision)

    def close(self) -> None:
        """Closes the space, before MPI.Finalize. A second call does nothing."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, exception, traceback)
