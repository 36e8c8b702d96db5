"""Values of objects and messages as bytes, for mainstay.objects.

A value is a letter and its data. Numbers are little-endian, lengths have 64 bits. Large memory is a part of its own,
which is sent or saved without a copy.
"""

from __future__ import annotations

import pickle
import struct
import sys
from array import array
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mainstay._engine import InvalidArgument

# Greatest depth of values within values.
DEPTH_MAX = 32
_LENGTH = struct.Struct("<Q")
_WHOLE, _REAL, _COMPLEX = struct.Struct("<q"), struct.Struct("<d"), struct.Struct("<dd")


def _put_sized(out: bytearray, letter: bytes, data: bytes | bytearray) -> None:
    out += letter
    out += _LENGTH.pack(len(data))
    out += data


def put_text(out: bytearray, text: str) -> None:
    _put_sized(out, b"s", text.encode("utf-8", "surrogatepass"))


def put_pickled(out: bytearray, value: object) -> None:
    _put_sized(out, b"p", pickle.dumps(value))


def _put_memory(parts: list[Any], data: Any, size: int) -> None:
    parts[-1] += _LENGTH.pack(size)
    if size:
        parts += [data, bytearray()]


def put(parts: list[Any], value: Any, depth: int) -> None:
    out, of = parts[-1], type(value)
    if depth > DEPTH_MAX:
        raise InvalidArgument(f"values are nested more than {DEPTH_MAX} deep, or contain themselves")
    if value is None:
        out += b"0"
    elif of is bool:
        out += b"t" if value else b"f"
    elif of is int:
        if -(1 << 63) <= value < 1 << 63:
            out += b"i" + _WHOLE.pack(value)
        else:
            _put_sized(out, b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    elif of is float:
        out += b"d" + _REAL.pack(value)
    elif of is complex:
        out += b"c" + _COMPLEX.pack(value.real, value.imag)
    elif of is str:
        put_text(out, value)
    elif of is bytes or of is bytearray:
        _put_sized(out, b"b" if of is bytes else b"B", value)
    elif of is array:
        out += b"a" + value.typecode.encode()
        _put_memory(parts, value, len(value) * value.itemsize)
    elif of is list or of is tuple:
        out += (b"l" if of is list else b"u") + _LENGTH.pack(len(value))
        for one in value:
            put(parts, one, depth + 1)
    elif of is dict:
        out += b"m" + _LENGTH.pack(len(value))
        for key, one in value.items():
            put(parts, key, depth + 1)
            put(parts, one, depth + 1)
    elif (numpy := sys.modules.get("numpy")) and of is numpy.ndarray:
        _put_array(parts, b"n", value, numpy, depth)
    elif numpy and isinstance(value, numpy.generic):
        _put_array(parts, b"g", numpy.asarray(value), numpy, depth)
    else:
        why = "take numbers, text, bytes, arrays, lists, tuples and dicts, or name the field in pickled=[...]"
        raise InvalidArgument(f"a value of type {of.__name__} is not saved as it is; {why}")


def _put_array(parts: list[Any], letter: bytes, value: Any, numpy: Any, depth: int) -> None:
    if value.dtype.hasobject:
        raise InvalidArgument("an array of Python's objects is not saved as it is; name the field in pickled=[...]")
    parts[-1] += letter
    put(parts, _kind_of(value.dtype, numpy), depth + 1)
    put(parts, tuple(value.shape), depth + 1)
    row = numpy.ascontiguousarray(value).reshape(-1)
    _put_memory(parts, row.view(numpy.uint8) if row.nbytes else b"", row.nbytes)


def _kind_of(dtype: Any, numpy: Any) -> Any:
    """A description from which numpy makes the same type when it unpacks. Not every description does, for instance
    that of bfloat16."""
    for told in ("str", "name") if dtype.names is None else ("descr",):
        with suppress(TypeError, ValueError):
            kind = getattr(dtype, told)
            if numpy.dtype(kind) == dtype:
                return kind
    why = "numpy could not make this type again; name the field in pickled=[...], or take a type without gaps, of plain numbers"
    raise InvalidArgument(f"an array of type {dtype} is not saved as it is: {why}")


def _short() -> InvalidArgument:
    return InvalidArgument("unpacking reads beyond the end of the packed bytes")


def _take(data: bytes, at: int, of: struct.Struct) -> tuple[Any, int]:
    if at + of.size > len(data):
        raise _short()
    return of.unpack_from(data, at), at + of.size


def _get_sized(data: bytes, at: int) -> tuple[memoryview, int]:
    (size,), at = _take(data, at, _LENGTH)
    if size > len(data) - at:
        raise _short()
    return memoryview(data)[at : at + size], at + size


def get_text(data: bytes, at: int) -> tuple[str, int]:
    if data[at : at + 1] != b"s":
        raise InvalidArgument("unpacking finds something else where packing wrote a field's name")
    text, at = _get_sized(data, at + 1)
    return str(text, "utf-8", "surrogatepass"), at


def get_pickled(data: bytes, at: int) -> tuple[Any, int]:
    if data[at : at + 1] != b"p":
        raise InvalidArgument(
            "packing did not pickle a field that unpacking has in pickled=[...]; let all ranks have the same"
        )
    pickled, at = _get_sized(data, at + 1)
    return pickle.loads(pickled), at


_PLAIN: Mapping[bytes, Any] = {b"0": None, b"t": True, b"f": False}


def get(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    letter, at = data[at : at + 1], at + 1
    if depth > DEPTH_MAX:
        raise InvalidArgument(f"values are nested more than {DEPTH_MAX} deep")
    if letter in _PLAIN:
        return _PLAIN[letter], at
    if letter in (b"i", b"d"):
        (number,), at = _take(data, at, _WHOLE if letter == b"i" else _REAL)
        return number, at
    if letter == b"c":
        (real, imaginary), at = _take(data, at, _COMPLEX)
        return complex(real, imaginary), at
    if letter in (b"I", b"s", b"b", b"B"):
        body, at = _get_sized(data, at)
        if letter == b"I":
            return int.from_bytes(body, "little", signed=True), at
        if letter == b"s":
            return str(body, "utf-8", "surrogatepass"), at
        return (bytes if letter == b"b" else bytearray)(body), at
    if letter == b"a":
        made = array(data[at : at + 1].decode("ascii", "replace"))
        body, at = _get_sized(data, at + 1)
        made.frombytes(body)
        return made, at
    if letter in (b"l", b"u", b"m"):
        (count,), at = _take(data, at, _LENGTH)
        all_: list[Any] = []
        for _ in range(2 * count if letter == b"m" else count):
            one, at = get(data, at, depth + 1)
            all_.append(one)
        if letter == b"m":
            return dict(zip(all_[::2], all_[1::2], strict=True)), at
        return (all_ if letter == b"l" else tuple(all_)), at
    if letter in (b"n", b"g"):
        import numpy

        kind, at = get(data, at, depth + 1)
        shape, at = get(data, at, depth + 1)
        body, at = _get_sized(data, at)
        try:
            dtype = numpy.dtype(kind)
        except TypeError:
            why = "first import the module that defines it"
            raise InvalidArgument(
                f"the packed value is an array of type {kind}, which numpy does not know here; {why}"
            ) from None
        if dtype.hasobject:
            raise InvalidArgument("the packed value is an array of Python's objects")
        values = numpy.ndarray(shape, dtype, body).copy()
        if values.nbytes != len(body):
            raise InvalidArgument("the packed value is an array of another size")
        return (values[()] if letter == b"g" else values), at
    if letter == b"p":
        raise InvalidArgument(
            "packing pickled a field that is not in pickled=[...] for unpacking; use the same on all ranks"
        )
    raise InvalidArgument("unpacking finds bytes that packing did not write") if letter else _short()
