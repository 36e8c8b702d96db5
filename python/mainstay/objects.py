"""Objects that move: a program divided into many more objects than ranks goes on with fewer ranks, and balances its
load.

    from mainstay import objects

    @dataclass
    class Cell:  # its fields are saved, and sent when it moves
        index: tuple
        atoms: numpy.ndarray = None

        @objects.handler
        def warm(self, degrees): ...

    with mainstay.open("space", comm) as session, objects.open(session) as here:
        cells = here.add(Cell, dimensions=3)
        if not here.restore():
            cells.create((0, 0, comm.rank))
        cells.broadcast("warm", 2.5)
        here.step()  # delivers, wherever the objects are, until no message is left
        here.checkpoint()
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, Union

from mainstay import _packing
from mainstay._engine import InvalidArgument, Session
from mainstay._engine import _Objects as _Core  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Balanced", "Came", "Kind", "Measured", "Objects", "handler", "open"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
Index = Union[int, tuple[int, ...]]

_HANDLER = "_mainstay_handler"


class Came(NamedTuple):
    """The result of a restore."""

    revision: int
    here: int  # objects that came to this rank,
    objects: int  # and to all ranks
    elsewhere: int  # those of them that came to another rank than the one that they were on
    skipped: list[str]  # the damage found, including newer revisions that were passed over


class Balanced(NamedTuple):
    """The result of moving objects. Loads are nanoseconds of a processor, or the units of work()."""

    moved: int
    busiest_before: int
    busiest: int
    average: int
    sent_before: int  # bytes that objects recently sent to objects on other ranks: by the old places,
    sent: int  # and by the new places


class Measured(NamedTuple):
    """The recent work of an object."""

    load: int
    sent: list[tuple[str, Index, int]]  # receivers, by kind and index, with the number of bytes for each


def handler(function: F) -> F:
    """Lets a method of a class of objects receive messages."""
    setattr(function, _HANDLER, True)
    return function


def open(
    session: Session, *, strategy: str = "refine", balance_every: int = 0, balance_after_failure: int = 0
) -> Objects:
    """The objects of a job, on the ranks of `session`. Local. They move by `strategy` every `balance_every`
    steps, and `balance_after_failure` steps after ranks have failed; 0 turns either off."""
    return Objects(session, strategy, balance_every, balance_after_failure)


class Objects:
    """The objects of a job, as one rank has them; open() makes it. Use it in the thread that uses its session, and
    close it before the session. Only step(), checkpoint(), balance() and evacuate() call handlers. Handlers may send,
    broadcast, contribute and report their work. All ranks call collective methods, in the same order."""

    def __init__(self, session: Session, strategy: str, balance_every: int, balance_after_failure: int) -> None:
        self._core = _Core(session, strategy, balance_every, balance_after_failure)
        self._thread = threading.get_ident()
        self._kinds: list[Kind[Any]] = []

    def add(
        self,
        of: type[T],
        name: str | None = None,
        *,
        dimensions: int = 0,
        fields: Sequence[str] | None = None,
        pickled: Sequence[str] = (),
    ) -> Kind[T]:
        """Registers the class `of` as a kind of objects, under its own name or `name`. Local; all ranks add the same
        kinds in the same order, before they create or restore any object.

        `of(index)` makes an object. Mainstay saves its `fields`: those given here, or the fields of a dataclass. They
        may be None, numbers, text, bytes, array.array, numpy arrays, and lists, tuples and dicts of these. Only the
        fields named in `pickled` are pickled. A class without fields gives its bytes by the buffer protocol. It has a
        method buffer() that returns writable memory of the same size on every rank, or is such memory itself.

        An index is a number, or with `dimensions` 2 or 3 a tuple of as many numbers below 2**32 or 2**21.
        """
        kind = Kind(self, of, name or of.__name__, dimensions, fields, pickled)
        kind._number = self._mine().register(kind.name, dimensions, kind)
        self._kinds.append(kind)
        return kind

    def restore(self) -> Came | None:
        """Removes all objects and restores the newest complete revision, by Session.restore(). Every object of it is
        made again, on one of the present ranks. Call it at the start, and after Session.recover(). None: there is no
        revision, and no object. If all copies of an object are damaged, it takes the same revision from a farther
        level, or an older one. Collective."""
        came = self._mine().restore()
        return Came(*came) if came else None

    def checkpoint(self) -> int:
        """Delivers the messages in flight and saves all objects, with the protected regions of the session, like
        Session.checkpoint(). If an object cannot be packed, nothing is saved. If somebody has asked to evacuate a
        node (`mainstay evacuate`), all objects leave it first. Collective."""
        return int(self._mine().checkpoint())

    def step(self) -> None:
        """Ends a step. It delivers all messages, and those that the objects send meanwhile, until there are none.
        Then it combines the results, and balances the load if it is time. If an object fails, all ranks raise
        InvalidArgument with its name and rank. After that only restore() works, and nothing can be saved. Collective."""
        self._mine().step()

    @property
    def steps(self) -> int:
        """The number of ended steps; it comes back with the objects."""
        return int(self._mine().steps)

    def __len__(self) -> int:
        """The number of objects on all ranks, as far as this one knows."""
        return int(self._mine().count)

    def balance(self, strategy: str = "refine") -> Balanced:
        """Moves objects according to their work, and with "graph" also according to their messages. Call it between
        two steps. Collective."""
        return Balanced(*self._mine().balance(strategy))

    def evacuate(self, ranks: Iterable[int]) -> Balanced:
        """Moves all objects off these ranks, which any rank may name: for a node that is about to fail. These ranks
        have no objects from then on, until a call names no rank. Save afterwards, because copies then leave the node,
        too. If an object cannot be packed or unpacked, all stay on their ranks. Collective."""
        with suppress(TypeError):  # all ranks refuse an argument that is not a list of ranks
            ranks = list(ranks)
        return Balanced(*self._mine().evacuate(ranks))

    def contribute(self, result: int, values: Iterable[float], op: Literal["sum", "min", "max"] = "sum") -> None:
        """Adds values to the result of this number. All contributions in a step use the same operation. A sum is
        rounded once, at its end: it is the same wherever the objects are. Local; also in handlers."""
        self._mine().contribute(result, op, [float(value) for value in values])

    def result(self, result: int) -> list[float] | None:
        """The result of this number in the last step, the same on all ranks; None: no object has contributed to it.
        Local."""
        values: list[float] | None = self._mine().result(result)
        return values

    def work(self, units: int) -> None:
        """In a handler: adds units of work to its object, in place of the time that it takes. All objects do so, or
        none."""
        self._mine().work(units)

    def close(self) -> None:
        """Releases all objects of this rank. Call it before you close the session. Local."""
        self._mine().close()

    def __enter__(self) -> Objects:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _mine(self) -> Any:
        if threading.get_ident() != self._thread:
            raise InvalidArgument("objects: they belong to another thread; use them in the one that opened them")
        return self._core


class Kind(Generic[T]):
    """A kind of objects; Objects.add() makes it."""

    def __init__(
        self,
        objects: Objects,
        of: type[T],
        name: str,
        dimensions: int,
        fields: Sequence[str] | None,
        pickled: Sequence[str],
    ) -> None:
        self.name, self.dimensions = name, dimensions
        self._objects, self._of, self._number = objects, of, -1
        self._fields = _fields(of, fields)
        self._pickled = frozenset(pickled)
        if odd := self._pickled - set(self._fields or ()):
            raise InvalidArgument(
                f"kind {name!r}: {', '.join(sorted(odd))} is to be pickled, and is none of its fields"
            )
        self._is_buffer = self._fields is None
        self._methods = sorted(at for at in dir(of) if getattr(getattr(of, at), _HANDLER, False))
        self._numbers = {method: number for number, method in enumerate(self._methods)}

    def create(self, index: Index) -> T:
        """Makes an object on this rank. Local; the other ranks learn of it when the step ends. Make each object on
        one rank."""
        made: T = self._objects._mine().create(self._number, self._id(index))
        return made

    def get(self, index: Index) -> T | None:
        """An object of this rank; None: it is on another one, or does not exist. Local."""
        found: T | None = self._objects._mine().get(self._number, self._id(index))
        return found

    def here(self) -> list[Index]:
        """The indices of this rank's objects. Local."""
        return [self._index(number) for number in self._objects._mine().here(self._number)]

    def rank(self, index: Index) -> int:
        """The rank of an object. Local. InvalidArgument: no rank has announced the object yet."""
        return int(self._objects._mine().rank(self._number, self._id(index)))

    def send(self, index: Index, method: str, *values: object) -> None:
        """Calls a handler of an object with these values, on whichever rank it is, before the step ends. Values have
        the types of fields. Local; also in handlers. If there is no such object, step() reports it."""
        core, number = self._objects._mine(), self._method(method)
        core.send(self._number, self._id(index), number, _packed(method, values))

    def broadcast(self, method: str, *values: object) -> None:
        """Calls a handler of all objects of the kind."""
        self._objects._mine().broadcast(self._number, self._method(method), _packed(method, values))

    def measured(self, index: Index) -> Measured:
        """The recent work of an object of this rank, which balancing uses and then halves. Local."""
        load, sent = self._objects._mine().measured(self._number, self._id(index))
        kinds = self._objects._kinds
        return Measured(load, [(kinds[kind].name, kinds[kind]._index(to), count) for kind, to, count in sent])

    def _method(self, method: str) -> int:
        number = self._numbers.get(method)
        if number is None:
            there = ", ".join(self._methods) or "none"
            raise InvalidArgument(
                f"kind {self.name!r}: it has no handler {method!r}; those marked with @handler: {there}"
            )
        return number

    def _id(self, index: Index) -> int:
        at = list(index) if isinstance(index, tuple) else [index]
        try:
            packed = _Core.index(at)
        except (OverflowError, TypeError, ValueError):
            packed = None
        if packed is None or len(at) != max(self.dimensions, 1):
            form = {2: "two numbers below 2**32", 3: "three numbers below 2**21"}.get(
                self.dimensions, "a number below 2**64"
            )
            raise InvalidArgument(f"kind {self.name!r}: {index!r} is no index of it; an index is {form}")
        return int(packed)

    def _index(self, number: int) -> Index:
        return tuple(_Core.place(number, self.dimensions)) if self.dimensions > 1 else number

    # The engine calls these.

    def _make(self, number: int) -> T:
        return self._of(self._index(number))  # type: ignore[call-arg]

    def _buffer(self, one: Any) -> Any:
        return one.buffer() if hasattr(one, "buffer") else one

    def _room(self, one: Any, size: int) -> Any:
        """The memory to fill with this number of packed bytes."""
        if isinstance(one, bytearray) and not hasattr(one, "buffer") and len(one) != size:
            one[:] = bytes(size)
        return self._buffer(one)

    def _parts(self, one: Any) -> list[Any]:
        if self._fields is None:
            return [self._buffer(one)]
        parts: list[Any] = [bytearray()]
        for name in self._fields:
            _packing.put_text(parts[-1], name)
            value = getattr(one, name)
            try:
                if name in self._pickled:
                    _packing.put_pickled(parts[-1], value)
                else:
                    _packing.put(parts, value, 0)
            except InvalidArgument as error:
                raise InvalidArgument(f"field {name!r}: {error}") from None
        return parts

    def _fill(self, one: Any, data: bytes) -> int:
        at = 0
        for name in self._fields or ():
            saved, at = _packing.get_text(data, at)
            if saved != name:
                raise InvalidArgument(
                    f"packing wrote field {saved!r} where unpacking has {name!r}; let all ranks have the same fields"
                )
            if name in self._pickled:
                value, at = _packing.get_pickled(data, at)
            else:
                value, at = _packing.get(data, at, 0)
            setattr(one, name, value)
        return at

    def _receive(self, one: Any, method: int, data: bytes) -> None:
        values, at = _packing.get(data, 0, 0)
        if at != len(data) or not isinstance(values, tuple) or method >= len(self._methods):
            raise InvalidArgument(
                "the received bytes are no message of mainstay.objects; run the same program on all ranks"
            )
        getattr(one, self._methods[method])(*values)


def _fields(of: type, fields: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names of the saved fields; None: the class gives a buffer."""
    if isinstance(fields, str):
        raise InvalidArgument(f"kind {of.__name__!r}: fields is a list of names, and not the text {fields!r}")
    if fields is not None:
        return tuple(fields)
    if dataclasses.is_dataclass(of):
        return tuple(field.name for field in dataclasses.fields(of))
    numpy = sys.modules.get("numpy")
    memory = (bytearray, array, *((numpy.ndarray,) if numpy else ()))
    if hasattr(of, "buffer") or hasattr(of, "__buffer__") or issubclass(of, memory):
        return None
    why = "it does not name its saved fields: give fields=[...], make it a dataclass, or give it a method buffer()"
    raise InvalidArgument(f"kind {of.__name__!r}: {why}")


def _packed(method: str, values: tuple[object, ...]) -> bytes:
    parts: list[Any] = [bytearray()]
    try:
        _packing.put(parts, values, 0)
    except InvalidArgument as error:
        raise InvalidArgument(f"message {method!r}: {error}") from None
    return b"".join(parts)
