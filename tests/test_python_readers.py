"""Boxes of global arrays and readers, in one Python process."""

import mainstay
import numpy as np
import pytest


def test_a_box_of_elements_that_are_bytes_is_refused_with_what_to_do(scratch):
    cells = np.zeros((4, 3), [("a", "f4"), ("b", "i8")])
    cells["b"] = np.arange(12).reshape(4, 3)
    with mainstay.open(scratch / "space") as session:
        with pytest.raises(mainstay.InvalidArgument, match=r'view\("u1"\).reshape\(\*array.shape, 12\)'):
            session.protect("cells", cells, global_shape=(6, 3), offset=(2, 0))
        as_bytes = cells.view("u1").reshape(*cells.shape, 12)
        session.protect("cells", as_bytes, global_shape=(6, 3, 12), offset=(2, 0, 0))
        session.checkpoint()
    with mainstay.read(scratch / "space") as reader:
        row = np.empty((1, 3), cells.dtype)
        reader.read_box("cells", (3, 0, 0), (1, 3, 12), row)
    assert (row == cells[1:2]).all()


def test_an_item_is_an_array_as_it_was_saved(scratch):
    """A reader gave bytes, of which every program made an array by itself."""
    saved = {
        "step": np.array(7),
        "field": np.arange(12, dtype="f4").reshape(3, 4),
        "flags": np.array([True, False]),
        "none": np.zeros((0, 3)),
        "raw": bytearray(b"abc"),
    }
    box = np.arange(6.0).reshape(2, 3)
    with mainstay.open(scratch / "space") as session:
        for name, array in saved.items():
            session.protect(name, array)
        session.protect("box", box, global_shape=(2, 3), offset=(0, 0))
        session.checkpoint()
    with mainstay.read(scratch / "space") as reader:
        for name, array in saved.items():
            array = np.frombuffer(array, "u1") if name == "raw" else array
            for read in reader.array(name), reader.array(name, shard=0):
                assert (read.dtype, read.shape) == (array.dtype, array.shape) and np.array_equal(read, array), name
                assert read.flags.writeable
        assert np.array_equal(reader.array("box"), box) and reader.array("box").dtype == box.dtype
        with pytest.raises(mainstay.Error, match="nothing"):
            reader.array("nothing")
    with pytest.raises(mainstay.InvalidArgument, match="closed"):
        reader.array("step")


def test_boxes_and_readers(scratch):
    whole = np.arange(6 * 8, dtype="f4").reshape(6, 8)
    part, step = whole[1:4, 2:7].copy(), np.array(7, "i8")
    with mainstay.open(scratch / "space") as session:
        session.protect("u", part, global_shape=(6, 8), offset=(1, 2))
        session.protect("step", step)
        for place in ({"global_shape": (6, 8)}, {"offset": (1, 2)}, {"global_shape": (3, 8), "offset": (1, 2)}):
            with pytest.raises(mainstay.InvalidArgument, match="box|global_shape"):
                session.protect("odd", np.zeros((3, 5)), **place)
        session.begin(100, {"who": "me"})  # sizes the space for the stream
        session.checkpoint()
        session.begin(100)
        session.write("log", 0, b"some text")
        session.checkpoint()
        session.wait()
        with mainstay.read(scratch / "space") as beside:
            assert beside.revision == 2
    with mainstay.read(scratch / "space", 2) as reader:
        [shard] = reader.shards
        assert (shard.number, shard.notes) == (0, {"who": "me"})
        described = {
            item.name: (item.kind, item.dtype, item.shape, item.global_shape, item.offset, item.bytes)
            for item in shard.items
        }
        assert described == {
            "u": ("region", "<f4", (3, 5), (6, 8), (1, 2), 60),
            "step": ("region", "<i8", (), None, None, 8),
            "log": ("stream", "|u1", (9,), None, None, 9),
        }
        assert repr(shard) == "<mainstay.Shard: 0, 3 items>"
        assert [repr(item) for item in shard.items] == [
            "<mainstay.Item: stream log, bytes (9,), 9 bytes>",
            "<mainstay.Item: region u, f32 (3, 5) at (1, 2) of (6, 8), 60 bytes>",
            "<mainstay.Item: region step, i64 (), 8 bytes>",
        ]
        assert reader.read(0, "u") == part.tobytes()
        assert reader.read(0, "log", 5, 99) == b"text" and reader.read(0, "log", 5, 2) == b"te"
        rest = bytearray(8)
        assert reader.readinto(0, "log", 5, rest) == 4 and rest[:4] == b"text"
        again = np.zeros((), "i8")
        assert reader.readinto(0, "step", 0, again) == 8 and again == 7
        box = np.empty((2, 3), "f4")
        reader.read_box("u", (2, 3), box.shape, box)
        assert np.array_equal(box, whole[2:4, 3:6])
        with pytest.raises(mainstay.RegionMissing, match=r"\[0\.\.1, 3\.\.6\]"):
            reader.read_box("u", (0, 3), box.shape, box)
        with pytest.raises(mainstay.InvalidArgument, match="shards 0 to 0"):
            reader.read(1, "u")
    with pytest.raises(mainstay.InvalidArgument, match="closed"):
        reader.read(0, "u")
    with pytest.raises(mainstay.RevisionMissing, match="no revision 4; there are: 2"):
        mainstay.read(scratch / "space", 4)
    # Alone, with another box: the cells that it wants, and the rest as before.
    other = np.zeros((1, 4), "f4")
    with mainstay.open(scratch / "space") as session:
        session.protect("u", other, (6, 8), (3, 3))
        session.protect("step", step)
        assert session.restore().revision == 2 and np.array_equal(other, whole[3:4, 3:7])
        assert session.read("log") == b"some text"
