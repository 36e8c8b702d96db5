"""`mainstay view`: common tools read a checkpoint in place."""

import os
import shutil
import subprocess
import sys

import h5py
import mainstay as front
import ml_dtypes
import numpy
import pytest
from command import LIMIT_S, arrays, mainstay
from jobs import run
from ways import rarely

RANKS = 3
EVERY = 50


@pytest.fixture(scope="module", params=["rank", *rarely("app")])
def saved(jacobi3d, tmp_path_factory, request):
    """A space that an MPI job saved itself to, with one file or one for each rank, and the saved fields."""
    folder = tmp_path_factory.mktemp("saved")
    mainstay("reserve", folder / "space", "--ranks", RANKS, "--per-rank", "200KiB", "--per", request.param)
    assert len(list((folder / "space").glob("*.mainstay"))) == (1 if request.param == "app" else RANKS)
    status, output = run(RANKS, jacobi3d(folder / "space", 2 * EVERY, EVERY), folder)
    assert status == 0, output
    exported = mainstay("export", folder / "space", folder / "out")
    return folder / "space", arrays(folder / "out", exported)


def layout_of(space, shard):
    """The layout file of a shard: its name has the file's lowest rank."""
    return [file for file in sorted(space.glob("*.mainstay")) if int(file.name.split("-")[2]) <= shard][-1]


def read(file):
    """Item by item, shard by shard, as h5py reads them."""
    found = {}
    with h5py.File(file) as view:
        for shard in view["shard"].values():
            number = int(shard.attrs["shard"])
            shard.visititems(
                lambda name, item: found.update({(number, name): item[()]}) if isinstance(item, h5py.Dataset) else None
            )
    return found


def same(one, other):
    """Bit for bit; of single numbers too."""
    one, other = ({key: numpy.asarray(value) for key, value in of.items()} for of in (one, other))
    assert one.keys() == other.keys()
    for key in one:
        assert (one[key].dtype, one[key].shape) == (other[key].dtype, other[key].shape), key
        assert one[key].tobytes() == other[key].tobytes(), key
    return True


def whole(file, parts):
    """The field of all shards, assembled from the saved parts."""
    with h5py.File(file) as view:
        part = view["shard/0000/temperature"]
        field = numpy.full(part.attrs["global_shape"], numpy.nan)
        for shard in range(RANKS):
            offset = view[f"shard/{shard:04}/temperature"].attrs["offset"]
            part = parts[shard, "temperature"]
            field[tuple(slice(at, at + n) for at, n in zip(offset, part.shape, strict=True))] = part
    assert not numpy.isnan(field).any()
    return field


def dumped(file, path, scratch, **more):
    """The bytes of a dataset, as h5dump writes them."""
    raw = scratch / "raw"
    subprocess.run(
        ["h5dump", "-d", path, "-b", "LE", "-o", raw, file],
        check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S, **more,
    )  # fmt: skip
    return raw.read_bytes()


def test_a_checkpoint_of_an_mpi_job_is_read_in_place(saved, scratch, monkeypatch):
    space, expected = saved
    file = scratch / "here" / "out.h5"
    document = mainstay("view", space, "--hdf5", file)
    assert document["hold"]["counts"] and document["left_out"] == [] and document["verified"]
    assert {(d["shard"], d["item"]) for d in document["datasets"]} == {*expected, (None, "temperature")}
    assert same(read(file), expected)
    field = whole(file, expected)
    with h5py.File(file) as view:
        assert (view.attrs["revision"], view.attrs["lineage"], view.attrs["shards"]) == (2, document["lineage"], RANKS)
        assert view.attrs["space"] == str(space.resolve())
        for shard in range(RANKS):
            part = view[f"shard/{shard:04}/temperature"]
            assert part.attrs["kind"] == "region" and part.attrs["element_type"] == "f64"
            assert part.attrs["bytes"] == expected[shard, "temperature"].nbytes
            assert {piece[0] for piece in part.external} == {str(layout_of(space, shard))}
        # One array over all shards, cut at the borders of the ranks' blocks, and across them.
        assert view["temperature"].is_virtual and view["temperature"][()].tobytes() == field.tobytes()
        assert (view["temperature"][3:17:2, 5:, ::7] == field[3:17:2, 5:, ::7]).all()
    # It is no copy.
    assert file.stat().st_blocks * 512 <= 32 << 10 < expected[0, "temperature"].nbytes
    # The data is found from any folder, and after a move of the file.
    moved = scratch / "there.h5"
    file.rename(moved)
    monkeypatch.chdir("/")
    assert same(read(moved), expected)
    monkeypatch.chdir(scratch)
    assert same(read("there.h5"), expected)
    for (shard, item), array in expected.items():
        assert dumped("there.h5", f"/shard/{shard:04}/{item}", scratch, cwd=scratch) == array.tobytes()
    assert dumped("there.h5", "/temperature", scratch, cwd=scratch) == field.tobytes()
    mainstay("release", space, "--revision", 2)


def test_what_changes_in_the_space_changes_in_the_view(saved, scratch):
    """The file has no bytes of its own."""
    space = scratch / "space"
    shutil.copytree(saved[0], space)
    mainstay("view", space, "--hdf5", scratch / "out.h5")
    with h5py.File(scratch / "out.h5") as view:
        _, at, _ = view["shard/0001/temperature"].external[0]
    with layout_of(space, 1).open("r+b") as layout:
        layout.seek(at)
        layout.write(numpy.float64(-7.5).tobytes())
    assert read(scratch / "out.h5")[1, "temperature"].flat[0] == -7.5
    # Verification finds it: the command makes no view of the damaged space.
    assert "checksum" in mainstay("view", space, "--hdf5", scratch / "again.h5", code=1)
    assert not (scratch / "again.h5").exists()


def test_a_view_by_relative_names_moves_with_its_space(saved, scratch):
    home = scratch / "home"
    shutil.copytree(saved[0], home / "space")
    mainstay("view", home / "space", "--hdf5", home / "views" / "out.h5", "--relative")
    away = scratch / "away"
    home.rename(away)
    file = away / "views" / "out.h5"
    # HDF5 looks at it when it starts.
    told = {**os.environ, "HDF5_EXTFILE_PREFIX": "${ORIGIN}"}
    for path, expected in [
        ("/shard/0002/temperature", saved[1][2, "temperature"]),
        ("/temperature", whole(file, saved[1])),
    ]:
        assert dumped(file, path, scratch, cwd="/", env=told) == expected.tobytes()
        script = "import h5py, sys; sys.stdout.buffer.write(h5py.File(sys.argv[1])[sys.argv[2]][()].tobytes())"
        done = subprocess.run(
            [sys.executable, "-c", script, file, path], cwd="/", env=told, check=True, capture_output=True, timeout=LIMIT_S,
        )  # fmt: skip
        assert done.stdout == expected.tobytes()
    with pytest.raises(OSError), h5py.File(file) as view:
        view["shard/0002/temperature"][()]


@pytest.mark.campaign
def test_tools_for_netcdf_read_it(saved, scratch):
    """They know only floats of 4 and 8 bytes, no complex numbers and no bool."""
    space, expected = saved
    mainstay("view", space, "--hdf5", scratch / "out.h5", "--no-hold")
    for path, array in [
        ("/shard/0001/temperature", expected[1, "temperature"]),
        ("temperature", whole(scratch / "out.h5", expected)),
    ]:
        said = subprocess.run(
            ["ncdump", "-p", "9,17", "-v", path, scratch / "out.h5"],
            check=True, capture_output=True, text=True, timeout=LIMIT_S,
        ).stdout  # fmt: skip
        assert ":revision = 2ULL" in said
        data = said.split("temperature =")[1].split(";")[0]
        assert numpy.array([float(number) for number in data.split(",")]).tobytes() == array.tobytes()


TYPES = [numpy.dtype(name) for name in "i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16 ?".split()]


@pytest.mark.parametrize("how", [[], ["--copy"]], ids=["in place", "copied"])
def test_every_element_type_and_shape_comes_back(scratch, how):
    random = numpy.random.default_rng(7)
    state = {}
    for dtype in TYPES:
        bits = random.integers(0, 2 if dtype == bool else 256, (7, 5, dtype.itemsize), "u1")
        state[dtype.name] = bits.view(dtype)[..., 0]
    state["bf16"] = random.standard_normal((3, 4)).astype(ml_dtypes.bfloat16)
    state["number"] = numpy.array(-3.5)
    state["large"] = random.standard_normal((3, 70_001))  # more than one chunk of a copy
    state["none"] = numpy.zeros((0, 4), "f4")
    state["groups/of/one"] = numpy.arange(5, dtype="u1")
    state["bytes"] = bytearray(b"as they are")
    state["byte"] = bytearray(b"1")
    with front.open(scratch / "space") as session:
        for name, value in state.items():
            session.protect(name, value)
        session.checkpoint()
    document = mainstay("view", scratch / "space", "--hdf5", scratch / "out.h5", *how)
    assert document["left_out"] == []
    if how:
        shutil.rmtree(scratch / "space")
    found = {name: value for (_, name), value in read(scratch / "out.h5").items()}
    # numpy has no such type: HDF5 converts it to the next type that holds all its values.
    bf16 = found.pop("bf16")
    assert bf16.dtype == "f4" and (bf16 == state.pop("bf16").astype("f4")).all()
    state |= {name: numpy.frombuffer(state[name], "u1") for name in ("bytes", "byte")}
    assert same(found, state)
    subprocess.run(["h5dump", scratch / "out.h5"], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)


def test_zeros_that_lie_nowhere_are_shown(scratch):
    state = numpy.random.default_rng(9).standard_normal((100, 1000))
    state[10:40] = 0
    state[70:72] = 0
    with front.open(scratch / "space", capture="incremental") as session:
        session.protect("u", state)
        session.protect("none", numpy.zeros(5000))
        for _ in range(3):
            state[5, 5] += 1
            session.checkpoint()
    expected = {(0, "u"): state, (0, "none"): numpy.zeros(5000)}
    assert mainstay("view", scratch / "space", "--hdf5", scratch / "out.h5")["left_out"] == []
    assert same(read(scratch / "out.h5"), expected)
    assert dumped(scratch / "out.h5", "/shard/0000/u", scratch) == state.tobytes()
    with h5py.File(scratch / "out.h5") as view:
        assert b"/dev/zero" in [os.fsencode(piece[0]) for piece in view["shard/0000/u"].external]
    # An absolute name stays absolute if HDF5 gets a folder to begin in.
    mainstay("view", scratch / "space", "--hdf5", scratch / "here.h5", "--relative", "--no-hold")
    told = {**os.environ, "HDF5_EXTFILE_PREFIX": "${ORIGIN}"}
    assert dumped(scratch / "here.h5", "/shard/0000/u", scratch, cwd="/", env=told) == state.tobytes()
    mainstay("view", scratch / "space", "--hdf5", scratch / "copy.h5", "--copy")
    shutil.rmtree(scratch / "space")
    assert same(read(scratch / "copy.h5"), expected)


@pytest.mark.parametrize(("every", "blocks"), [(3, 5400), (2, 8000)])
def test_a_region_in_many_parts_is_shown_or_copied(every, blocks, scratch):
    """In each group of `every` blocks all except the first change. If bytes allow, the region stays within HDF5's limit; otherwise the
    view reports it."""
    state = numpy.random.default_rng(7).integers(0, 256, blocks * 4096, "u1")
    with front.open(scratch / "space", capture="incremental") as session:
        session.protect("u", state)
        session.checkpoint()
        state.reshape(-1, every, 4096)[:, 1:, 5] ^= 1
        session.checkpoint()
    document = mainstay("view", scratch / "space", "--hdf5", scratch / "out.h5", "--no-hold")
    if every == 3:
        assert document["left_out"] == [] and same(read(scratch / "out.h5"), {(0, "u"): state})
        with h5py.File(scratch / "out.h5") as view:
            assert 1000 < len(view["shard/0000/u"].external) <= 2500
        assert dumped(scratch / "out.h5", "/shard/0000/u", scratch) == state.tobytes()
    else:
        (left,) = document["left_out"]
        assert (left["shard"], left["item"]) == (0, "u") and "pieces" in left["why"], left
    copied = mainstay("view", scratch / "space", "--hdf5", scratch / "out.h5", "--copy", "--force")
    assert copied["left_out"] == [] and same(read(scratch / "out.h5"), {(0, "u"): state})


def test_what_lies_in_too_many_pieces_is_left_out_or_copied(scratch):
    """HDF5's list of the pieces has room for some 2,700."""
    pieces, length = 2701, 100
    random = numpy.random.default_rng(8)
    streams = {"few": pieces - 1, "many": pieces}
    expected = {name: random.integers(0, 256, count * length, "u1") for name, count in streams.items()}
    with front.open(scratch / "space", stage="direct") as session:
        session.begin(4 << 20)
        for name, count in streams.items():
            for piece in reversed(range(count)):
                session.write(name, piece * length, expected[name][piece * length : (piece + 1) * length])
        session.checkpoint()
    document = mainstay("view", scratch / "space", "--hdf5", scratch / "out.h5")
    (left,) = document["left_out"]
    assert (left["shard"], left["item"]) == (0, "many") and "2701 pieces" in left["why"], left
    assert same(read(scratch / "out.h5"), {(0, "few"): expected["few"]})
    assert dumped(scratch / "out.h5", "/shard/0000/few", scratch) == expected["few"].tobytes()
    with h5py.File(scratch / "out.h5") as view:
        assert len(view["shard/0000/few"].external) == pieces - 1
        assert view["shard/0000/few"].attrs["kind"] == "stream"
    # The copy holds no revision.
    mainstay("release", scratch / "space", "--revision", document["revision"])
    copied = mainstay("view", scratch / "space", "--hdf5", scratch / "out.h5", "--copy", "--force")
    assert copied["left_out"] == [] and copied["hold"] is None and mainstay("ls", scratch / "space")["holds"] == []
    shutil.rmtree(scratch / "space")
    assert same(read(scratch / "out.h5"), {(0, name): value for name, value in expected.items()})
