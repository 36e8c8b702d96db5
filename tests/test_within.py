"""Boxes inside larger arrays in memory, in C and in Python: the memory around them stays unchanged."""

import mainstay
import numpy as np
import pytest
from command import mainstay as mainstay_command
from jobs import run
from programs import build_c
from ways import rarely

RANKS = 4


@pytest.mark.parametrize("stage", ["pool", *rarely("node", "rank", "direct")])
def test_a_field_with_ghosts_comes_back_on_any_number_of_ranks(mpi, scratch, monkeypatch, stage):
    monkeypatch.setenv("MAINSTAY_STAGE", stage)
    within = build_c(["within.c"], "within", mpi=mpi)
    status, output = run(RANKS, [within, scratch / "space", 2, "save"], scratch, mpi=mpi)
    assert status == 0 and output == "revision 0", output
    for ranks, ghosts in [(2, 2), (6, 3)] if stage == "pool" else [(RANKS, 1), (3, 0)]:
        status, output = run(ranks, [within, scratch / "space", ghosts, "restore"], scratch, mpi=mpi)
        assert status == 0 and output == "revision 1", output


def inside_of(shape, dtype):
    """An array with two ghosts around it on each side, filled with -1, and its inside."""
    stored = np.full(tuple(side + 4 for side in shape), -1, dtype)
    return stored, stored[(slice(2, -2),) * len(shape)]


def test_views_of_numpy_arrays(scratch):
    numbers = np.arange(30 * 40 * 50, dtype="f8").reshape(30, 40, 50)
    stored, inside = inside_of(numbers.shape, "f8")
    pairs = np.zeros((6, 4), [("a", "i4"), ("b", "i2")])
    every_other = np.zeros((9, 20), "c16")
    with mainstay.open(scratch / "space") as session:
        session.protect("numbers", inside, global_shape=(30, 40, 70), offset=(0, 0, 20))
        session.protect("pairs", pairs[1:5, 1:3])  # of a type that the space has no name for
        session.protect("every-other", every_other[::2, 1::3])
        session.protect("bytes", memoryview(bytearray(b"s-o-m-e"))[::2])
        inside[...] = numbers
        pairs["a"], pairs["b"] = np.arange(24).reshape(6, 4), 7
        every_other[...] = np.arange(180).reshape(9, 20)
        session.checkpoint()
        session.wait()
        before = pairs.copy(), every_other.copy()
        stored[...], pairs["a"], every_other[...] = -2, -2, -2
        session.restore()
        assert (inside == numbers).all() and (stored == -2).sum() == stored.size - numbers.size
        assert (pairs["a"][1:5, 1:3] == before[0]["a"][1:5, 1:3]).all() and (pairs["a"] == -2).sum() == 24 - 8
        assert (every_other[::2, 1::3] == before[1][::2, 1::3]).all() and (every_other == -2).sum() == 180 - 35
    shown = mainstay_command("show", scratch / "space")
    items = {item["name"]: item["shape"] for item in shown["revision"]["shard_list"][0]["items"]}
    assert items == {"numbers": [30, 40, 50], "pairs": [4, 2, 6], "every-other": [5, 7], "bytes": [4]}
    with mainstay.read(scratch / "space") as reader:
        assert reader.read(0, "numbers") == numbers.tobytes() and reader.read(0, "bytes") == b"some"

    # Other boxes, in other memory.
    stored, inside = inside_of((30, 7, 9), "f8")
    with mainstay.open(scratch / "space") as session:
        session.protect("numbers", inside, (30, 40, 70), (0, 5, 61))
        session.protect("pairs", np.zeros(48, "u1"))
        session.protect("every-other", np.zeros((5, 7), "c16"))
        session.protect("bytes", bytearray(4))
        assert session.restore().revision == 1
    assert np.array_equal(inside, numbers[:, 5:12, 41:50])
    inside[...] = -1
    assert (stored == -1).all()
