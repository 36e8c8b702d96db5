"""The Python package in one process: its kept data, its held memory, and its messages."""

import array
import ctypes
import gc
import inspect
import io
import json
import mmap
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import mainstay
import ml_dtypes
import numpy as np
import pytest
from limits import LIMIT_S
from mpi import OPENMPI, ROOT

MAINSTAY = OPENMPI.command("mainstay")
SHAPES = [(), (1,), (7,), (3, 4), (2, 3, 4), (0,), (5, 0), (1, 6, 1)]
# numpy's name of each type, and the engine's name.
TYPES = {
    "i1": "i8", "u1": "u8", "i2": "i16", "u2": "u16", "i4": "i32", "u4": "u32", "i8": "i64", "u8": "u64",
    "f2": "f16", "f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128", "?": "bool", ml_dtypes.bfloat16: "bf16",
    # Types without an equivalent are kept byte for byte.
    "longdouble": "bytes", "M8[s]": "bytes", "m8[ns]": "bytes", "S5": "bytes", "U3": "bytes", "V7": "bytes",
    ml_dtypes.float8_e5m2: "bytes",
}  # fmt: skip
STRUCTURE = np.dtype([("Old number", "f8"), ("Place", "i4", (3,)), ("swapped", ">u2")])


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("n", ctypes.c_int)]


def bytes_of(buffer):
    return buffer.tobytes() if isinstance(buffer, np.ndarray) else bytes(memoryview(buffer).cast("B"))


def fill(buffer, byte):
    """Fills every byte of a buffer of any type."""
    if isinstance(buffer, np.ndarray):
        buffer.reshape(-1).view("V%d" % max(1, buffer.itemsize)).view("u1")[:] = byte
    elif view := memoryview(buffer).cast("B"):
        view[:] = bytes([byte]) * len(view)


def come_back(space, buffers):
    """They are saved, lost, and restored, bit for bit."""
    before = {name: bytes_of(buffer) for name, buffer in buffers.items()}
    with mainstay.open(space) as session:
        for name, buffer in buffers.items():
            session.protect(name, buffer)
        assert session.restore() is None
        revision = session.checkpoint()
        for buffer in buffers.values():
            fill(buffer, 0xA5)
        restored = session.restore()
        assert restored.revision == revision and restored.skipped == []
    assert {name: bytes_of(buffer) for name, buffer in buffers.items()} == before


def shown(space):
    """Type and shape of each region, in the output of the command."""
    document = json.loads(subprocess.check_output([MAINSTAY, "show", "--json", space], timeout=LIMIT_S))
    (shard,) = document["revision"]["shard_list"]
    return {item["name"]: (item["element_type"], tuple(item["shape"])) for item in shard["items"]}


def test_numpy_arrays_come_back_with_type_and_shape(scratch):
    random = np.random.default_rng(1)
    arrays, expected = {}, {}
    for number, (dtype, name) in enumerate(TYPES.items()):
        for shape in SHAPES:
            array = np.empty(shape, dtype)
            array.reshape(-1).view("V%d" % array.itemsize).view("u1")[:] = random.integers(0, 256, array.nbytes, "u1")
            region = f"{number}-{'x'.join(map(str, shape))}"
            arrays[region] = array
            expected[region] = (name, (array.nbytes,) if name == "bytes" else shape)
    come_back(scratch / "space", arrays)
    assert shown(scratch / "space") == expected


def test_any_revision_that_is_there_comes_back(scratch):
    state = np.zeros(3)
    with mainstay.open(scratch / "space", keep=3) as session:
        session.protect("state", state)
        for step in 1, 2, 3:
            state[:] = step
            session.checkpoint()
        session.wait()
    with mainstay.open(scratch / "space", keep=3) as session:
        state[:] = 0
        session.protect("state", state)
        with pytest.raises(mainstay.RevisionMissing, match="revision 9 has not been written yet; there are: 1, 2, 3"):
            session.restore(revision=9)
        with pytest.raises(mainstay.InvalidArgument):
            session.restore(revision=-1)
        assert (state == 0).all()
        for revision in 2, 1:
            assert session.restore(revision=revision).revision == revision and (state == revision).all()


def test_whatever_has_a_buffer_comes_back(scratch):
    stream = io.BytesIO(b"stream")
    with mmap.mmap(-1, 4096) as mapped:
        mapped[:6] = b"mapped"
        buffers = {
            "bytearray": bytearray(b"bytes"),
            "empty": bytearray(),
            "memoryview": memoryview(bytearray(range(12)))[3:9],
            "cast": memoryview(bytearray(range(48))).cast("d", (2, 3)),
            "mmap": mapped,
            "BytesIO": stream.getbuffer(),
            "structured": np.array([(1.5, (1, 2, 3), 4), (2.5, (4, 5, 6), 7)], STRUCTURE),
            "part": np.arange(20.0).reshape(4, 5)[1:3],
            "transposed twice": np.arange(6.0).reshape(2, 3).T.T,
            "ctypes": (ctypes.c_int32 * 3)(1, 2, 3),
            "structure": (Point * 2)((1.5, 2), (3.5, 4)),
            "grid": ((ctypes.c_double * 3) * 2)(),
            **{f"array-{code}": array.array(code, [1, 2, 3]) for code in "bBhHiIlLqQfd"},
        }
        buffers["transposed-twice"] = buffers.pop("transposed twice")
        come_back(scratch / "space", buffers)
        kinds = shown(scratch / "space")
        assert kinds["cast"] == ("f64", (2, 3)) == kinds["grid"]
        assert kinds["array-l"] == ("i64", (3,)) and kinds["array-I"] == ("u32", (3,))
        assert kinds["ctypes"] == ("i32", (3,)) and kinds["structure"] == ("bytes", (32,))
        assert kinds["structured"] == ("bytes", (2 * STRUCTURE.itemsize,))
        buffers.clear()
        gc.collect()


def resizes(scratch):
    """Objects, and the calls that would move or free their memory."""
    mapped = mmap.mmap(-1, 4096)
    owner, whole, numbers = bytearray(100), np.zeros(1000), array.array("d", [0.0] * 100)
    stream = io.BytesIO(bytes(100))
    inner = np.zeros(1000)
    yield owner, owner.clear, BufferError
    yield memoryview(owner), lambda: owner.extend(b"more"), BufferError
    yield numbers, lambda: numbers.extend([1.0] * 100000), BufferError
    yield stream.getbuffer(), lambda: stream.write(bytes(10000)), BufferError
    yield mapped, lambda: mapped.resize(1 << 20), BufferError
    yield mapped, mapped.close, BufferError
    yield whole, lambda: whole.resize(1000000), ValueError
    yield whole, lambda: whole.resize(1000000, refcheck=False), ValueError
    yield inner[10:20], lambda: inner.resize(1000000, refcheck=False), ValueError
    yield memoryview(inner), lambda: inner.resize(1000000, refcheck=False), ValueError
    view = memoryview(bytearray(10))
    yield view, view.release, BufferError
    # numpy holds no buffer of the memory below an array: closing a mapping under an array ended the process.
    mapped, owner, numbers = mmap.mmap(-1, 4096), bytearray(4096), array.array("d", [0.0] * 512)
    yield np.ndarray(512, buffer=mapped), mapped.close, BufferError
    yield np.ndarray(512, buffer=mapped)[8:16], mapped.close, BufferError
    yield np.ndarray(512, buffer=owner), lambda: owner.extend(bytes(1 << 26)), BufferError
    yield np.ndarray(512, buffer=numbers), lambda: numbers.extend([1.0] * (1 << 22)), BufferError
    file = np.memmap(scratch / "file", "f8", "w+", shape=512)
    yield file, file._mmap.close, BufferError
    # The same form as a multiprocessing.shared_memory.SharedMemory.
    view = memoryview(mapped)
    yield np.ndarray(512, buffer=view), lambda: (view.release(), mapped.close()), BufferError


def test_memory_that_is_protected_cannot_be_resized_or_freed(scratch):
    with mainstay.open(scratch / "space") as session:
        for number, (buffer, resize, refusal) in enumerate(resizes(scratch)):
            session.protect(f"region-{number}", buffer)
            with pytest.raises(refusal):
                resize()
            session.checkpoint()
            session.unprotect(f"region-{number}")
            del buffer


def test_memory_that_ctypes_moved_is_neither_saved_nor_filled(scratch):
    """ctypes.resize gives no notice: a checkpoint saved freed memory, and a restore overwrote it."""
    with mainstay.open(scratch / "space", portion_bytes="16MiB") as session:
        text = (ctypes.c_char * 512)(b"a")
        session.protect("text", text)
        assert session.checkpoint() == 1
        ctypes.resize(text, 1 << 20)
        for call in (session.checkpoint, session.restore):
            with pytest.raises(mainstay.InvalidArgument, match='"text".*was moved'):
                call()
        session.unprotect("text")
        session.protect("text", text)
        text[0] = b"b"
        assert session.checkpoint() == 2
        text[0] = b"c"
        assert session.restore().revision == 2 and text[0] == b"b"


def test_an_array_that_was_given_other_memory_is_neither_saved_nor_filled(scratch):
    """numpy's __setstate__ frees memory that others have a view of: the checkpoint read it, and the program crashed."""
    with mainstay.open(scratch / "space") as session:
        array, day = np.zeros(200_000), np.zeros(9, "datetime64[s]")
        session.protect("array", array)
        session.protect("day", day)
        assert session.checkpoint() == 1
        array.__setstate__((1, array.shape, array.dtype, False, bytes(array.nbytes)))
        for call in (session.checkpoint, session.restore):
            with pytest.raises(mainstay.InvalidArgument, match='"array".*was moved'):
                call()
        session.unprotect("array")
        session.protect("array", array)
        assert session.checkpoint() == 2


def test_memory_is_let_go_by_unprotect_and_by_the_end(scratch):
    class Watched(np.ndarray):
        pass

    gone = []

    def protected(session, name):
        import weakref

        buffer = np.zeros(100).view(Watched)
        weakref.finalize(buffer, gone.append, name)
        session.protect(name, buffer)

    session = mainstay.open(scratch / "space")
    for name in ("a", "b", "c"):
        protected(session, name)
    session.checkpoint()
    assert gone == []
    session.unprotect("b")
    assert gone == ["b"]
    session.unprotect_all()
    assert sorted(gone) == ["a", "b", "c"]
    protected(session, "a")  # the name is free again
    session.close()
    assert sorted(gone) == ["a", "a", "b", "c"]
    session = mainstay.open(scratch / "space")
    protected(session, "dropped")
    del session
    assert "dropped" in gone
    buffer = bytearray(3)
    with mainstay.open(scratch / "space") as session:
        session.protect("buffer", buffer)
        with pytest.raises(BufferError):
            buffer.clear()
    buffer.clear()


ADDRESSES = {
    "array": np.array([1000, "a", None], object),
    "structured": np.zeros(3, [("x", "i8"), ("of", "O")]),
    "view": memoryview(np.array([1000, "a", None], object)),
    "ctypes": (ctypes.py_object * 3)(1000, "a", None),
    "pointers": (ctypes.c_void_p * 3)(),
}


@pytest.mark.parametrize("objects", ADDRESSES.values(), ids=ADDRESSES)
def test_addresses_are_neither_written_nor_read_into(scratch, objects):
    """Another process got invalid addresses in place of objects, and crashed at the first access."""
    with mainstay.open(scratch / "space") as session:
        session.begin(1000)
        with pytest.raises(
            mainstay.InvalidArgument, match='stream "pieces": its elements are Python objects or pointers'
        ):
            session.write("pieces", 0, objects)
        session.abandon()
        with pytest.raises(
            mainstay.InvalidArgument, match='buffer "whole": its elements are Python objects or pointers'
        ):
            session.put("whole", objects)
        session.put("whole", bytes(memoryview(objects).nbytes))
        with mainstay.read(scratch / "space") as reader:
            for call in (lambda: session.get("whole", objects), lambda: reader.readinto(0, "whole", 0, objects)):
                with pytest.raises(mainstay.InvalidArgument, match="its elements are Python objects or pointers"):
                    call()


def test_a_masked_array_is_not_written_without_its_mask(scratch):
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    with mainstay.open(scratch / "space") as session:
        with pytest.raises(mainstay.InvalidArgument, match='buffer "whole": the array is masked'):
            session.put("whole", masked)
        session.put("whole", masked.data)


def test_an_array_that_the_program_forgets_is_saved_all_the_same(scratch):
    with mainstay.open(scratch / "space") as session:
        session.protect("field", np.full(100_000, 7.0))
        gc.collect()
        junk = [np.full(100_000, float(i)) for i in range(20)]
        session.checkpoint()
        session.wait()
    field = np.zeros(100_000)
    with mainstay.open(scratch / "space") as session:
        session.protect("field", field)
        assert session.restore().revision == 1 and junk
    assert (field == 7).all()


def test_a_name_that_is_refused_holds_nothing(scratch):
    buffer, other = bytearray(3), bytearray(3)
    with mainstay.open(scratch / "space") as session:
        session.protect("buffer", buffer)
        for name in ("buffer", "a b", "", "\udcff"):
            with pytest.raises((mainstay.DuplicateName, mainstay.InvalidName)):
                session.protect(name, other)
        other.clear()
        with pytest.raises(mainstay.RegionMissing):
            session.unprotect("other")


# ---- errors ----


def test_the_classes_are_the_statuses_of_c():
    header = (ROOT / "capi" / "include" / "mainstay.h").read_text()
    body = re.search(
        r"typedef enum[^{]*\{([^}]*)\} mainstay_status;", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    )[1]
    statuses = set(re.findall(r"MAINSTAY_([A-Z_]+)", body)) - {"OK"}
    told = (mainstay.Error, SystemExit)
    classes = {name for name, value in vars(mainstay).items() if isinstance(value, type) and issubclass(value, told)}
    classes.remove("Error")
    assert {re.sub("(?<!^)(?=[A-Z])", "_", name).upper() for name in classes} == statuses
    for name in classes:
        error = getattr(mainstay, name)("said")
        assert (error.kind, str(error), type(error).__module__) == (name, "said", "mainstay")
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), "said")


def test_errors_are_also_what_python_would_raise(scratch):
    with pytest.raises(ValueError, match="keep: 0 is out of range"):
        mainstay.open(scratch / "space", keep=0)
    with pytest.raises(OSError, match="making the directory") as told:
        mainstay.open("/proc/space")
    assert type(told.value) is mainstay.Io and told.value.errno == 2
    with pytest.raises(mainstay.NotASpace):
        mainstay.open(__file__)
    with pytest.raises(mainstay.InvalidArgument, match="path: 5 is no path"):
        mainstay.open(5)


# ---- sessions ----


def test_two_sessions_at_once(scratch):
    one, other = np.zeros(10), np.zeros(10)
    with mainstay.open(scratch / "one") as first, mainstay.open(scratch / "other") as second:
        first.protect("field", one)
        second.protect("field", other)
        for step in range(1, 6):
            one[:], other[:] = step, -step
            assert first.checkpoint() == second.checkpoint() == step
        with pytest.raises(mainstay.InUse, match=re.escape(str(scratch / "one"))) as refused:
            mainstay.open(scratch / "one")
        assert f": process {os.getpid()} on {os.uname().nodename}, its rank 0, has had it open since" in str(
            refused.value
        )
        one[:] = other[:] = 0
        assert first.restore().revision == second.restore().revision == 5
    assert one[0] == 5 and other[0] == -5


def test_a_session_that_ended_says_so(scratch):
    session = mainstay.open(scratch / "space")
    assert (session.rank, session.size) == (0, 1) and "open>" in repr(session)
    session.close()
    session.close()
    assert "closed" in repr(session)
    calls = [
        session.restore,
        session.checkpoint,
        session.wait,
        session.progress,
        session.poll,
        session.last_record,
        session.__enter__,
    ]
    calls += [lambda: session.protect("a", bytearray(1)), lambda: session.unprotect("a"), lambda: session.due(1)]
    calls += [lambda: session.protect_output("a"), lambda: session.wait("pfs")]
    for call in calls:
        with pytest.raises(mainstay.InvalidArgument, match="closed"):
            call()


def test_an_exception_in_the_block_goes_on_and_the_revision_is_kept(scratch):
    buffer = bytearray(b"saved")
    with pytest.raises(ZeroDivisionError), mainstay.open(scratch / "space") as session:
        session.protect("buffer", buffer)
        session.checkpoint()
        buffer[:] = b"other"
        1 / 0
    with pytest.raises(mainstay.InvalidArgument):
        session.wait()
    with mainstay.open(scratch / "space") as session:
        session.protect("buffer", buffer)
        assert session.restore().revision == 1
    assert buffer == b"saved"


def test_a_session_goes_nowhere_by_pickle(scratch):
    with mainstay.open(scratch / "space") as session, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(session)
    with pytest.raises(TypeError):
        mainstay.Session()


def test_notes_and_what_they_may_be(scratch):
    buffer = bytearray(3)
    notes = {
        "step": 5,
        "time": 0.1,
        "big": 1 << 100,
        "who": "Ada ⛰",
        "np": np.int64(7),
        "npf": np.float32(0.5),
        "yes": True,
    }
    with mainstay.open(scratch / "space") as session:
        session.protect("buffer", buffer)
        session.checkpoint(notes)
        session.note("who", "Grace")
        session.note("half", 0.5)
        session.checkpoint(notes={"step": 6})
        restored = session.restore()
        assert restored.notes == {
            name: str(value) for name, value in (notes | {"step": 6, "who": "Grace", "half": 0.5}).items()
        }
        with pytest.raises(mainstay.InvalidArgument, match="note"):
            session.checkpoint({"long": "x" * 70000})
        # The text of an array leaves out its middle.
        with pytest.raises(mainstay.InvalidArgument, match="note many: its value is no text and no number"):
            session.note("many", np.arange(10_000))
        session.note("one", np.array(7))
        session.note("rate", Tensor(0.00123456789))
        session.checkpoint()
        assert session.restore().notes["rate"] == "0.00123456789"
        Tensor.item = None
        with pytest.raises(mainstay.InvalidArgument, match="note rate: its text is no number"):
            session.note("rate", Tensor(0.5))


class Tensor(float):
    """Without dimensions, and with a text that leaves digits out, like the tensors of PyTorch."""

    ndim = 0

    def __str__(self):
        return f"tensor({self:.4f})"

    def item(self):
        return float(self)


def refusals(session, reader):
    """All calls that can be refused because of their arguments."""
    state, odd = bytearray(8), 1 << 64
    yield lambda: mainstay.open(5)
    yield lambda: mainstay.open("x", keep=-1)
    yield lambda: mainstay.open("x", pool_bytes="many")
    yield lambda: mainstay.open("x", nonsense=1)
    yield lambda: mainstay.open("x", hints=5)
    yield lambda: mainstay.open("x", comm=5)
    yield lambda: mainstay.read(5)
    yield lambda: mainstay.read("nowhere")
    yield lambda: session.adopt(5)
    yield lambda: session.protect("a b", state)
    yield lambda: session.protect("x", b"constant")
    yield lambda: session.protect("x", 5)
    yield lambda: session.protect("state", state)
    yield lambda: session.protect("x", state, global_shape=[8])
    for number in -1, odd:
        yield lambda: session.protect("x", state, global_shape=[8], offset=[number])  # noqa: B023
        yield lambda: session.move("state", state, global_shape=[number], offset=[0])  # noqa: B023
        yield lambda: session.empty("x", number)  # noqa: B023
        yield lambda: session.empty("x", [3, number])  # noqa: B023
        yield lambda: session.settled("state", number, 1)  # noqa: B023
        yield lambda: session.settled("state", 0, number)  # noqa: B023
        yield lambda: session.begin(number)  # noqa: B023
        yield lambda: session.due(number)  # noqa: B023
        yield lambda: session.restore(revision=number)  # noqa: B023
        yield lambda: session.choose(revision=number)  # noqa: B023
        yield lambda: session.get("x", state, number)  # noqa: B023
        yield lambda: session.get_bytes("x", number)  # noqa: B023
        yield lambda: session.saved("x", number)  # noqa: B023
        yield lambda: session.write("x", number, b"x")  # noqa: B023
        yield lambda: session.read("stream", number)  # noqa: B023
        yield lambda: session.read("stream", 0, number)  # noqa: B023
        yield lambda: session.readinto("stream", number, state)  # noqa: B023
        yield lambda: session.bring_shards([number])  # noqa: B023
        yield lambda: session.read_shard(number, "stream")  # noqa: B023
        yield lambda: session.read_shard(0, "stream", number)  # noqa: B023
        yield lambda: session.readinto_shard(0, "stream", number, state)  # noqa: B023
        yield lambda: mainstay.read(reader.path, number)  # noqa: B023
        yield lambda: reader.read(number, "stream")  # noqa: B023
        yield lambda: reader.read(0, "stream", number)  # noqa: B023
        yield lambda: reader.readinto(0, "stream", number, state)  # noqa: B023
        yield lambda: reader.read_box("state", [number], [1], state)  # noqa: B023
    yield lambda: session.begin("many")
    yield lambda: session.due("soon")
    yield lambda: session.move("x", state)
    yield lambda: session.empty("x", 3, object)
    yield lambda: session.free("x")
    yield lambda: session.untrack("x")
    yield lambda: session.same_on_all_ranks("x")
    yield lambda: session.unprotect("x")
    yield lambda: session.protect_output(5)
    yield lambda: session.restore(revision="newest")
    yield lambda: session.recover()
    yield lambda: session.checkpoint(5)
    yield lambda: session.begin(1, "step")
    yield lambda: session.put(5, b"x")
    yield lambda: session.get(5, state)
    yield lambda: session.get_bytes(5)
    yield lambda: session.saved(5)
    yield lambda: session.wait(5)
    yield lambda: session.note(5, "x")
    yield lambda: session.note("x", [])
    yield lambda: session.checkpoint({"x": []})
    yield lambda: session.begin(1, {"x": []})
    yield lambda: session.abandon()
    yield lambda: session.write("x", 0, b"x")
    yield lambda: session.put("a b", b"x")
    yield lambda: session.put("x", "text")
    yield lambda: session.get("x", state)
    yield lambda: session.get("state", b"constant")
    yield lambda: session.bring_shards(5)
    yield lambda: session.bring_shards(["x"])
    yield lambda: session.read_shard(7, "stream")
    yield lambda: session.wait("attic")
    yield lambda: session.open("stream", "w+")
    yield lambda: session.open("stream").seek(-1)
    yield lambda: session.open("stream").seek(0, 7)
    yield lambda: reader.read(7, "stream")
    yield lambda: reader.read(0, "nothing")
    yield lambda: reader.read_box("nothing", [0], [1], state)


def of_another_type(session, reader):
    """Calls with one argument of a wrong type. The argument concerns only the calling rank."""
    state = bytearray(8)
    for odd in (None, 5, b"x", [1], object()):
        for call in (
            session.free,
            session.untrack,
            session.same_on_all_ranks,
            session.unprotect,
            session.open,
            session.read,
        ):
            yield lambda: call(odd)  # noqa: B023
        yield lambda: session.protect(odd, state)  # noqa: B023
        yield lambda: session.move(odd, state)  # noqa: B023
        yield lambda: session.empty(odd, 3)  # noqa: B023
        yield lambda: session.settled(odd, 0, 1)  # noqa: B023
        yield lambda: session.write(odd, 0, b"x")  # noqa: B023
        yield lambda: session.readinto(odd, 0, state)  # noqa: B023
        yield lambda: session.read_shard(0, odd)  # noqa: B023
        yield lambda: session.readinto_shard(0, odd, 0, state)  # noqa: B023
        yield lambda: reader.read(0, odd)  # noqa: B023
        yield lambda: reader.readinto(0, odd, 0, state)  # noqa: B023
        yield lambda: reader.read_box(odd, [0], [1], state)  # noqa: B023
    for odd in ("x", 1.5, [1.5], object(), float("nan")):
        yield lambda: session.protect("x", state, odd, [0])  # noqa: B023
        yield lambda: session.protect("x", state, [8], odd)  # noqa: B023
        yield lambda: session.move("state", state, [8], odd)  # noqa: B023
        yield lambda: session.empty("x", odd)  # noqa: B023
        yield lambda: session.settled("state", odd, 1)  # noqa: B023
        yield lambda: session.settled("state", 0, odd)  # noqa: B023
        yield lambda: session.write("x", odd, b"x")  # noqa: B023
        yield lambda: session.read("stream", odd)  # noqa: B023
        yield lambda: session.read("stream", 0, odd)  # noqa: B023
        yield lambda: session.readinto("stream", odd, state)  # noqa: B023
        yield lambda: session.read_shard(odd, "stream")  # noqa: B023
        yield lambda: session.read_shard(0, "stream", odd)  # noqa: B023
        yield lambda: session.read_shard(0, "stream", 0, odd)  # noqa: B023
        yield lambda: session.readinto_shard(odd, "stream", 0, state)  # noqa: B023
        yield lambda: session.readinto_shard(0, "stream", odd, state)  # noqa: B023
        yield lambda: session.steps(odd)  # noqa: B023
        yield lambda: mainstay.read(reader.path, odd)  # noqa: B023
        yield lambda: reader.read(odd, "stream")  # noqa: B023
        yield lambda: reader.read(0, "stream", odd)  # noqa: B023
        yield lambda: reader.read(0, "stream", 0, odd)  # noqa: B023
        yield lambda: reader.readinto(odd, "stream", 0, state)  # noqa: B023
        yield lambda: reader.readinto(0, "stream", odd, state)  # noqa: B023
        yield lambda: reader.read_box("state", odd, [1], state)  # noqa: B023
        yield lambda: reader.read_box("state", [0], odd, state)  # noqa: B023
    for odd in ("text", 5, object()):
        yield lambda: session.protect("x", odd)  # noqa: B023
        yield lambda: session.write("x", 0, odd)  # noqa: B023
        yield lambda: session.readinto("stream", 0, odd)  # noqa: B023
        yield lambda: session.readinto_shard(0, "stream", 0, odd)  # noqa: B023
        yield lambda: reader.readinto(0, "stream", 0, odd)  # noqa: B023
        yield lambda: session.empty("x", 3, odd)  # noqa: B023
        yield lambda: session.empty("x", 3, same_address=odd)  # noqa: B023
        yield lambda: session.empty("x", 3, written_by_system=odd)  # noqa: B023
        yield lambda: session.open("stream", odd)  # noqa: B023
        yield lambda: session.steps(3, odd)  # noqa: B023
        if odd != 5:
            yield lambda: mainstay.finalize(odd)  # noqa: B023


def test_what_is_of_another_type_is_refused_by_mainstay_as_by_python(scratch, monkeypatch):
    """It was only a TypeError if the call concerns only the calling rank."""
    monkeypatch.chdir(scratch)
    with mainstay.open(scratch / "space") as session:
        session.protect("state", bytearray(8))
        session.begin(100)
        session.write("stream", 0, b"stream")
        session.checkpoint()
        session.restore()
        with mainstay.read(scratch / "space") as reader:
            for number, call in enumerate(of_another_type(session, reader)):
                with pytest.raises(mainstay.InvalidArgument) as raised:
                    call()
                assert isinstance(raised.value, TypeError) and isinstance(raised.value, ValueError), (
                    number,
                    raised.value,
                )
        # No trace of it is left.
        assert session.restore().revision == 1 and session.checkpoint() == 2


def test_every_refusal_is_an_error_of_mainstay(scratch, monkeypatch):
    """Negative and huge numbers were an OverflowError, and files of streams raised a ValueError."""
    monkeypatch.chdir(scratch)
    with mainstay.open(scratch / "space") as session:
        session.protect("state", bytearray(8))
        session.begin(100)
        session.write("stream", 0, b"stream")
        session.checkpoint()
        session.restore()
        with mainstay.read(scratch / "space") as reader:
            for number, call in enumerate(refusals(session, reader)):
                with pytest.raises(mainstay.Error) as raised:
                    call()
                assert raised.value.kind == type(raised.value).__name__ != "Error", (number, raised.value)
                assert raised.value.kind != "Internal", (number, raised.value)
        with pytest.raises(mainstay.InvalidArgument, match="it is closed"):
            reader.read(0, "stream")
        # No trace of it is left.
        assert session.restore().revision == 1 and session.checkpoint() == 2
    for call in (
        session.restore,
        session.checkpoint,
        session.wait,
        session.poll,
        session.bring_shards,
        lambda: session.due(1),
    ):
        with pytest.raises(mainstay.InvalidArgument):
            call()


def test_an_output_file_is_cut_back(scratch):
    output, step = scratch / "output", np.zeros((), "i8")
    for start in (0, 3):
        with mainstay.open(scratch / "space") as session:
            session.protect("step", step)
            session.protect_output(output)
            restored = session.restore()
            assert step == start and (restored is None) == (start == 0)
            with output.open("a") as file:
                for _ in range(5):
                    step += 1
                    print(int(step), file=file, flush=True)
                    if step % 3 == 0:
                        session.checkpoint()
        step[...] = 0
    assert output.read_text().split() == list("12345678")
    output.write_text("1")
    with mainstay.open(scratch / "space") as session:
        session.protect("step", step)
        session.protect_output(output)
        with pytest.raises(mainstay.OutputShort, match="output"):
            session.restore()


def test_when_a_checkpoint_is_due(scratch):
    with mainstay.open(scratch / "space", every_steps=3) as session:
        session.protect("buffer", bytearray(3))
        due = [step for step in range(1, 10) if session.due(step) and session.checkpoint()]
    assert due == [3, 6, 9]


def test_a_count_of_steps_that_is_another_object_is_told(scratch, capfd):
    """`step = step + 1` makes a new array: the protected one stays 0, and no error showed it."""
    for _ in range(2):
        step = np.array(0)
        with mainstay.open(scratch / "space", every_steps=3) as session:
            session.protect("step", step)
            restored = session.restore()
            for _ in range(4):
                step = step + 1
                if session.due(int(step)):
                    session.checkpoint()
    assert restored.step == 3
    assert capfd.readouterr().err.count("was saved at step 3, and the program goes on at step 1:") == 1


def test_what_a_checkpoint_took(scratch):
    with mainstay.open(scratch / "space") as session:
        session.protect("field", np.zeros(1000))
        assert session.last_record() is None
        session.checkpoint()
        session.wait()
        assert session.poll() is True
        record = session.last_record()
    assert (record.revision, record.bytes) == (1, 8000) and record.written_bytes > 8000
    assert 0 < record.perceived_ns <= record.durable_ns and record.resume_ns > 0
    named = (record.communication_ns, record.buffer_wait_ns, record.copy_ns, record.other_ns, record.resume_ns)
    assert sum(named) == record.perceived_ns
    assert "8000 bytes" in repr(record)
    with pytest.raises(AttributeError):
        record.bytes = 5


# ---- settings ----


def test_every_setting_is_a_keyword_and_the_other_way_round(scratch):
    told = subprocess.check_output([MAINSTAY, "config", "--json"], cwd=scratch, timeout=LIMIT_S)
    settings = {setting["key"]: setting["default"] for setting in json.loads(told)["settings"]}
    parameters = inspect.signature(mainstay.open).parameters
    # `hints` holds several settings in one text, as in MPI-IO.
    assert {name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY} == {*settings, "hints"}
    mainstay.open(scratch / "space", **settings).close()
    mainstay.open(scratch / "space", **dict.fromkeys(settings)).close()
    with pytest.raises(mainstay.InvalidArgument, match="did you mean keep"):
        mainstay.open(scratch / "space", kep=3)


def test_settings_take_what_python_has(scratch):
    given = {"keep": np.int32(2), "pool_bytes": "16 MiB", "every_seconds": np.float32(0.5), "mtbf_seconds": 10,
             "pool_directory": Path("/dev/shm"), "stage": "direct"}  # fmt: skip
    mainstay.open(scratch / "space", **given).close()
    for odd in ({"keep": -1}, {"keep": 1.5}, {"keep": "3"}, {"keep": True}, {"keep": 1 << 200}, {"pool_directory": 5},
                {"every_seconds": float("nan")}, {"stage": "x" * 100_000}, {"start": []}):  # fmt: skip
        with pytest.raises(mainstay.InvalidArgument, match=f"^{next(iter(odd))}: .*it takes") as told:
            mainstay.open(scratch / "space", **odd)
        assert len(str(told.value)) < 300


# ---- the package ----


def test_the_import_brings_nothing_else():
    """The benchmark measures the time; this test checks that the import loads no slow module."""
    code = "import sys; before = set(sys.modules); import mainstay; print(*sorted(set(sys.modules) - before))"
    told = subprocess.check_output([sys.executable, "-I", "-c", code], text=True, timeout=LIMIT_S)
    assert told.split() == ["mainstay", "mainstay._engine"]


def test_the_stubs_are_those_of_the_package():
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "mainstay"], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_type_checkers_know_the_package(scratch):
    good = ROOT / "tests" / "python" / "typed.py"
    environment = {**os.environ, "MYPY_CACHE_DIR": str(scratch / "cache")}
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    done = subprocess.run([*command, good], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout
    bad = scratch / "bad.py"
    bad.write_text(
        "import mainstay\nwith mainstay.open('space', keep='3') as session:\n    session.protect('a', [1])\n"
    )
    done = subprocess.run([*command, bad], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert len(re.findall("error: Argument", done.stdout)) == 2, done.stdout


def test_the_readmes_program_runs(scratch):
    program = re.search(r"```python\n(.*?)```", (ROOT / "python" / "README.md").read_text(), re.DOTALL)[1]
    for revision in (0, 10):
        code = program.replace("session.restore() ", "print(session.restore()) ")
        told = subprocess.check_output([sys.executable, "-c", code], cwd=scratch, text=True, timeout=LIMIT_S)
        assert ("None" if revision == 0 else f"revision {revision}") in told
