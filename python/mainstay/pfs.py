"""The interface of PFS-delegation: each rank writes a buffer as the next revision, and reads any that is kept.

    from mainstay import pfs

    with pfs.open("space", comm, count=field.nbytes, info={"striping_factor": "4"}) as space:
        space.read(field)  # the last valid revision; None: there is none
        ...
        space.write(field)  # durable on all ranks when it returns the revision's number
        space.read(field, revision=3)

Arteaga and Zhao, Towards Scalable Application Checkpointing with Parallel File System Delegation, section IV.
In C it is mainstay_pfs.h. All calls are collective; what fails on one rank raises on all.
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

ITEM = "buffer"  # as mainstay_pfs.h has it: each reads what the other wrote


def open(
    path: str | os.PathLike[str],
    comm: MPI.Intracomm | None = None,
    *,
    count: int | None = None,
    info: Mapping[str, str] | MPI.Info | None = None,
    **settings: Any,
) -> Space:
    """Opens the delegated space in the directory `path`, made if it is missing.

    `count` is the most bytes that this rank is going to write at once: a new space has room for so many in each of
    keep + 2 revisions; without it, for as many as the first write. `info`, an MPI.Info or any mapping, has hints:
    striping_factor, striping_unit and cb_nodes, and mainstay_ before the name of a setting; those of others are ignored.
    `settings` are those of mainstay.open.
    """
    return Space(mainstay.open(path, comm, shard_bytes=count, hints=info, **settings))


class Space:
    """A delegated space that is open; `open` makes it."""

    def __init__(self, session: mainstay.Session) -> None:
        self._session = session

    @property
    def session(self) -> mainstay.Session:
        """For all that is not said here."""
        return self._session

    def write(self, buffer: ReadableBuffer | _Array) -> int:
        """Writes the bytes of `buffer` as this rank's part of the next revision, and returns its number once it is
        complete and durable on all ranks. Their number may differ between ranks, and from one revision to the next.
        """
        return self._session.put(ITEM, buffer)

    def read(self, into: WriteableBuffer | _Array, *, revision: int | None = None) -> mainstay.Got | None:
        """Reads what this rank wrote in the last valid revision, or in that of this number, into `into`, from its
        beginning; every byte is verified. `into` may be larger, not smaller. `None`: nothing was written yet. A revision
        that is not there raises RevisionMissing, which names those that are.
        """
        return self._session.get(ITEM, into, revision)

    def size(self, *, revision: int | None = None) -> int | None:
        """How many bytes read() has for this rank; `None`: nothing was written yet."""
        return self._session.get_bytes(ITEM, revision)

    def close(self) -> None:
        """Ends the use of the space, before MPI.Finalize. Closed once more, nothing happens."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, exception, traceback)
