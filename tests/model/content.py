"""The bytes that programs save: the same as c/content.c makes."""

import zlib

import numpy

MASK = 2**64 - 1


def content(tag, salt, name, start, count):
    """Bytes `start` to `start + count` of the endless text (`tag`, `salt`, `name`); tag 0: zeros."""
    if tag == 0:
        return bytes(count)
    seed = tag * 0x9E3779B97F4A7C15 + salt * 0xC2B2AE3D27D4EB4F + zlib.crc32(name.encode()) * 0x165667B19E3779F9
    first, last = start // 8, (start + count + 7) // 8
    words = numpy.arange(first, last, dtype="u8") * numpy.uint64(0xD6E8FEB86659FD93)
    words += numpy.uint64(seed & MASK)
    words ^= words >> numpy.uint64(29)
    words *= numpy.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> numpy.uint64(32)
    return words.astype("<u8").tobytes()[start - 8 * first :][:count]
