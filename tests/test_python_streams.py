"""Streams in Python: pieces, and files that stand for them."""

import gc
import io
import pickle
import random
import shutil
import zipfile

import mainstay
import numpy as np
import pytest

ROOM = 8 << 20
GONE = "a checkpoint or a restore has come since the file was opened"


@pytest.fixture
def session(scratch):
    with mainstay.open(scratch / "space", pool_bytes="4 MiB", chunk_bytes="64 KiB") as session:
        yield session


def come_back(session):
    """Ends the checkpoint, and brings it back."""
    revision = session.checkpoint()
    assert session.restore().revision == revision


def test_a_checkpoint_in_pieces_takes_its_notes_when_it_begins(scratch):
    with mainstay.open(scratch / "space") as session:
        for step in (1, 2):
            session.begin(10, {"step": step})
            session.write("a", 0, b"piece")
            session.checkpoint()
            assert session.restore().notes == {"step": str(step)}
        session.begin(10)
        with pytest.raises(mainstay.InvalidArgument, match="note"):
            session.checkpoint({"step": 3})
        assert session.checkpoint() == 3


@pytest.mark.parametrize("seed", range(8))
def test_pieces_in_any_order_are_what_was_written_last(session, seed):
    choose = random.Random(seed)
    for _ in range(3):
        session.begin(ROOM)
        expected = {"a": bytearray(), "b/c": bytearray()}
        for name in expected:
            session.write(name, 0, b"")
        for _ in range(200):
            name, offset = choose.choice(list(expected)), choose.randrange(choose.choice([1, 5000, 300_000]))
            piece = choose.randbytes(choose.choice([0, 1, 63, 511, 512, 4095, 4096, 4097, 70_000]))
            session.write(name, offset, piece)
            stream = expected[name]
            stream.extend(bytes(max(0, offset + len(piece) - len(stream))))
            stream[offset : offset + len(piece)] = piece
        come_back(session)
        assert session.streams() == {name: len(stream) for name, stream in expected.items()}
        for name, stream in expected.items():
            assert session.read(name) == stream
            for _ in range(50):
                offset, most = choose.randrange(310_000), choose.randrange(100_000)
                assert session.read(name, offset, most) == stream[offset : offset + most]
                into = bytearray(b"\xee" * most)
                got = session.readinto(name, offset, into)
                assert into == stream[offset : offset + most] + b"\xee" * (most - got)


def test_whatever_has_a_buffer_is_a_piece(session):
    field, back = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
    session.begin(ROOM)
    session.write("field", 0, field)
    session.write("transposed", 0, field.T.copy())
    session.write("part", 0, memoryview(b"0123456789")[2:5])
    session.write("number", 0, np.float64(0.5))
    session.write("time", 0, np.zeros(2, "M8[s]"))
    come_back(session)
    assert session.readinto("field", 0, back) == field.nbytes and (back == field).all()
    assert session.streams() == {"field": 96, "number": 8, "part": 3, "time": 16, "transposed": 96}
    assert session.read("part") == b"234" and session.read("field", 1 << 62) == b""


def test_programs_that_write_to_files_write_to_streams(session, scratch):
    state = {"field": np.arange(300_000.0), "text": "x" * 1000, "none": None}
    arrays = [np.arange(20).reshape(4, 5), np.zeros(0), np.asfortranarray(np.ones((300, 200)))]
    plain = scratch / "plain"
    plain.write_bytes(random.Random(1).randbytes(3_000_001))
    session.begin(2 * ROOM)
    with session.open("state", "wb") as file:
        pickle.dump(state, file, protocol=5)
    with session.open("arrays", "wb") as file:
        for array in arrays:
            np.save(file, array)
    with session.open("archive", "wb") as file:  # goes back to complete its heads
        np.savez(file, *arrays)
    with session.open("copy", "wb") as file, plain.open("rb") as source:
        shutil.copyfileobj(source, file)
    with session.open("text", "wb") as file, io.TextIOWrapper(file, "utf-8") as text:
        print("two\nlines, ä", file=text)
    come_back(session)

    with session.open("state") as file:
        back = pickle.load(file)
        assert (back["field"] == state["field"]).all() and back["text"] == state["text"] and file.read() == b""
    with session.open("arrays", "rb") as file:
        for array in arrays:
            np.testing.assert_array_equal(np.load(file), array)
    with session.open("archive") as file:
        np.testing.assert_array_equal(np.load(file)["arr_0"], arrays[0])
        assert zipfile.ZipFile(file).testzip() is None
    with session.open("copy") as file, (scratch / "back").open("wb") as target:
        shutil.copyfileobj(file, target)
    assert (scratch / "back").read_bytes() == plain.read_bytes()
    assert io.TextIOWrapper(session.open("text"), "utf-8").read() == "two\nlines, ä\n"


def test_files_seek_tell_and_know_what_they_are(session):
    session.begin(ROOM)
    with session.open("a", "wb") as file:
        assert (file.name, file.mode, file.readable(), file.writable(), file.seekable()) == (
            "a",
            "wb",
            False,
            True,
            True,
        )
        file.write(b"0123456789")
        assert file.tell() == 10 and file.seek(-4, io.SEEK_END) == 6
        file.write(b"AB")
        assert file.seek(3, io.SEEK_CUR) == 11
        file.write(b"!")
        with pytest.raises(io.UnsupportedOperation):
            file.read()
        with pytest.raises(ValueError):
            file.seek(-1)
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.write(b"")
    # Opened again: writing begins at the start, and bytes that are not overwritten stay.
    with session.open("a", "wb") as file:
        file.write(b"##")
    session.open("empty", "wb").close()
    come_back(session)
    with session.open("a") as file:
        assert (file.name, file.mode, file.readable(), file.writable(), file.seekable()) == (
            "a",
            "rb",
            True,
            False,
            True,
        )
        assert file.read() == b"##2345AB89\0!" and file.seek(-1, io.SEEK_END) == 11 and file.read(5) == b"!"
        assert file.seek(2) == 2 and file.read(3) == b"234" and file.tell() == 5 and file.peek(1)[:1] == b"5"
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
    assert session.open("empty").read() == b""


def test_the_end_is_that_of_the_stream_whoever_wrote_it(session):
    session.begin(ROOM)
    with session.open("a", "wb") as file:
        file.write(b"x" * 1000)
    session.write("b", 500, b"y" * 7)
    with session.open("a", "wb") as again, session.open("b", "wb") as other, session.open("c", "wb") as new:
        assert (again.tell(), again.seek(0, io.SEEK_END), other.seek(0, io.SEEK_END)) == (0, 1000, 507)
        assert new.seek(0, io.SEEK_END) == 0
        again.write(b"TAIL")
        assert again.seek(-4, io.SEEK_END) == 1000 and again.write(b"tail") == 4
        session.write("a", 2000, b"z")
        assert again.seek(0, io.SEEK_END) == 2001
    session.checkpoint()
    # Of the checkpoint that has begun, not of the one before.
    session.begin(ROOM)
    with session.open("a", "wb") as file:
        assert file.seek(0, io.SEEK_END) == 0
        file.write(b"x" * 1000)
    with session.open("a", "wb") as again:
        again.seek(0, io.SEEK_END)
        again.write(b"TAIL")
    come_back(session)
    assert session.read("a") == b"x" * 1000 + b"TAIL"


def test_what_a_file_buffers_is_in_the_checkpoint(session):
    session.begin(ROOM)
    left, dropped, cycle = session.open("left", "wb"), session.open("dropped", "wb"), session.open("cycle", "wb")
    left.write(b"left open")
    dropped.write(b"dropped")
    del dropped
    cycle.write(b"in a cycle")
    loop = [cycle]
    loop.append(loop)
    del cycle, loop
    try:
        with session.open("raised", "wb") as raised:
            raised.write(b"before")
            raise RuntimeError("out of luck")
    except RuntimeError:
        pass
    come_back(session)
    gc.collect()
    names = {"left": b"left open", "dropped": b"dropped", "cycle": b"in a cycle", "raised": b"before"}
    assert {name: session.read(name) for name in session.streams()} == names
    left.close()  # nothing is left in it


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_file_of_before_is_refused(session):
    session.begin(ROOM)
    writer = session.open("a", "wb")
    writer.write(b"a")
    with pytest.raises(mainstay.InvalidArgument, match="was not finished, and is given up"):
        session.begin(ROOM)
    writer.write(b"later")
    with pytest.raises(mainstay.InvalidArgument, match=GONE):
        writer.flush()
    session.begin(ROOM)
    writer = session.open("a", "wb")
    writer.write(b"a")
    come_back(session)
    assert session.read("a") == b"a"
    writer.write(b"later")
    with pytest.raises(mainstay.InvalidArgument, match=GONE):
        writer.flush()
    reader = session.open("a")
    session.begin(ROOM)
    with pytest.raises(mainstay.InvalidArgument, match=GONE):
        writer.flush()  # not into the checkpoint that has begun since
    with pytest.raises(mainstay.InvalidArgument, match=GONE):
        reader.read()
    session.write("a", 0, b"b")
    come_back(session)
    with pytest.raises(mainstay.InvalidArgument, match=GONE):
        reader.read()
    reader = session.open("a")
    session.restore()
    with pytest.raises(mainstay.InvalidArgument, match=GONE):
        reader.read()


def test_what_cannot_be_done_is_said(session):
    with pytest.raises(mainstay.InvalidArgument, match="call restore first"):
        session.streams()
    assert session.restore() is None and session.streams() == {}
    for call in (lambda: session.write("a", 0, b"x"), lambda: session.open("a", "wb")):
        with pytest.raises(mainstay.InvalidArgument, match="call begin first, on all ranks"):
            call()
    session.begin(ROOM)
    for data, says in ((1, "type int"), ("text", "encode"), (np.arange(9)[::2], "in a row"), (None, "NoneType")):
        with pytest.raises(mainstay.InvalidArgument, match=says):
            session.write("a", 0, data)
    for mode in ("w", "r", "ab", "r+b", ""):
        with pytest.raises(mainstay.InvalidArgument, match="'wb' or 'rb'"):
            session.open("a", mode)
    with pytest.raises(mainstay.InvalidArgument, match="-1 is none that can be"):
        session.write("a", -1, b"x")
    session.write("a", 0, b"x")
    come_back(session)
    with pytest.raises(mainstay.InvalidArgument, match='stream "b": revision 1 has no stream of this name.*: a$'):
        session.open("b")
    with pytest.raises(mainstay.InvalidArgument, match="writable"):
        session.readinto("a", 0, b"constant")
    with pytest.raises(TypeError):
        session.begin()


def test_a_piece_that_is_refused_fails_the_checkpoint_and_not_the_next(session):
    session.begin(ROOM)
    session.write("a", 0, b"x")
    for call in (lambda: session.open("a b", "wb"), session.checkpoint, session.wait):
        with pytest.raises(mainstay.InvalidName):
            call()
    # Told: nothing is under way any more.
    assert session.wait() is None and session.poll()
    session.begin(ROOM)
    session.write("a", 0, b"y")
    come_back(session)
    assert session.read("a") == b"y"


def test_a_file_that_cannot_be_flushed_fails_the_checkpoint_and_not_the_next(session):
    session.begin(ROOM)
    file = session.open("a", "wb")
    file.write(b"x")
    file.detach()  # its flush fails from now on
    for call in (session.checkpoint, session.wait):
        with pytest.raises(mainstay.InvalidArgument, match="a file that is open on a stream: .*detached"):
            call()
    session.begin(ROOM)
    session.write("a", 0, b"y")
    come_back(session)
    assert session.read("a") == b"y"


def test_what_is_given_up_leaves_nothing_but_its_number(session):
    with pytest.raises(mainstay.InvalidArgument, match="no checkpoint has begun"):
        session.abandon()
    first = session.begin(ROOM)
    session.write("a", 0, b"x")
    session.checkpoint()
    assert session.begin(ROOM) == first + 1
    file = session.open("b", "wb")
    file.write(b"y")
    file.flush()
    session.abandon()
    with pytest.raises(mainstay.InvalidArgument, match=GONE):
        file.raw.write(b"z")
    assert session.restore().revision == first
    assert session.streams() == {"a": 1} and session.read("a") == b"x"
    assert session.begin(ROOM) == first + 2
    with pytest.raises(mainstay.InvalidArgument, match="was not finished, and is given up"):
        session.wait()


def test_a_session_that_is_closed_has_no_files(scratch):
    session = mainstay.open(scratch / "space")
    session.begin(ROOM)
    session.write("a", 0, b"x")
    come_back(session)
    reader = session.open("a")
    session.close()
    with pytest.raises(mainstay.InvalidArgument, match="closed"):
        reader.read()
    with pytest.raises(mainstay.InvalidArgument, match="closed"):
        session.open("a")


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError("mine")])
def test_what_is_raised_while_a_checkpoint_writes_out_a_file_is_told(scratch, monkeypatch, raised):
    """A Ctrl-C became an InvalidArgument without a text."""
    from mainstay._stream import Stream

    def fails(stream, data):
        raise raised

    with mainstay.open(scratch / "space") as session:
        session.begin(1000)
        file = session.open("state", "wb")
        file.write(b"content")
        with monkeypatch.context() as patched, pytest.raises((KeyboardInterrupt, mainstay.InvalidArgument)) as told:
            patched.setattr(Stream, "write", fails)
            session.checkpoint()
        assert raised in (told.value, told.value.__cause__)
        for ends in (file.close, session.close):
            with pytest.raises(mainstay.InvalidArgument):
                ends()
