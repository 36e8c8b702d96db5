"""The paper's interface in Python: mainstay.pfs, alone and on mpi4py."""

import re
import textwrap

import mainstay
import numpy as np
import pytest
from jobs import run
from mainstay import pfs

RANKS = 3


def test_buffers_of_any_kind_come_back(scratch):
    with pfs.open(
        scratch / "space",
        count=1 << 20,
        info={"mainstay_keep": 3, "striping_factor": "4", "striping_unit": "65536", "cb_nodes": "8"},
    ) as space:
        into = np.full(100, 9.0)
        assert space.read(into) is None and space.size() is None and (into == 9).all()
        assert space.write(np.arange(10.0)) == 1
        assert space.write(b"bytes") == 2
        assert space.write(bytearray(300_000)) == 3
        assert (space.size(), space.size(revision=1), space.size(revision=2)) == (300_000, 80, 5)
        got = space.read(into, revision=1)
        assert (got.revision, got.bytes, got.skipped) == (1, 80, [])
        assert repr(got) == "<mainstay.Got: 80 bytes of revision 1, 0 passed over>"
        assert (into[:10] == np.arange(10)).all() and (into[10:] == 9).all()
        text = bytearray(5)
        assert space.read(text, revision=2).bytes == 5 and text == b"bytes"
        assert space.write(b"") == 4 and space.read(bytearray()).bytes == 0
        assert (space.session.rank, space.session.size) == (0, 1)
    space.close()
    with pytest.raises(mainstay.InvalidArgument, match="closed"):
        space.write(b"late")
    # Python reads the data of C: it is one item of this name.
    with mainstay.open(scratch / "space") as session:
        assert session.get("buffer", text, 2).bytes == 5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda space: space.write("text"), "type str has no bytes to write"),
        (lambda space: space.write(None), "NoneType"),
        (lambda space: space.write(np.zeros((4, 4)).T[1:]), "all in a row"),
        (lambda space: space.read(b"fixed"), "writable"),
        (lambda space: space.read(bytearray(4)), "room for 4 bytes, and this rank saved 5 in revision 6"),
        (
            lambda space: space.read(bytearray(5), revision=0),
            "revision 0 is none, numbers begin at 1; there are: .*5, 6",
        ),
        (lambda space: space.read(bytearray(5), revision=-1), "-1 is none, it takes a number from 1"),
        (lambda space: space.read(bytearray(5), revision="6"), "6 is none"),
        (lambda space: space.read(bytearray(5), revision=2**70), "is none"),
        (lambda space: space.read(bytearray(5), revision=7), "revision 7 has not been written yet; .*: .*5, 6"),
        (lambda space: space.size(revision=1), "revision 1 is gone, as keep is 2.*: .*5, 6"),
    ],
)
def test_what_cannot_be_is_said_and_harms_nothing(scratch, call, words):
    with pfs.open(scratch / "space", keep=2) as space:
        for number in range(1, 7):
            assert space.write(b"%05d" % number) == number
        kind = mainstay.RevisionMissing if words.startswith("revision") else mainstay.InvalidArgument
        with pytest.raises(kind, match=words):
            call(space)
        into = bytearray(5)
        assert space.read(into).revision == 6 and into == b"00006"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"info": {"mainstay_keep": "0"}}, "hint mainstay_keep: .*it takes 1 to 1000"),
        ({"info": {"mainstay_pool_bytes": "much"}}, "hint mainstay_pool_bytes: .*is no size"),
        ({"info": {"striping_unit": "65537"}}, "hint striping_unit: .*multiples of 64 KiB"),
        ({"info": {"striping_factor": -1}}, "hint striping_factor: .*out of range"),
        ({"info": 7}, "hints: 7 is no mapping"),
        ({"count": -1}, "shard_bytes"),
        ({"count": 1 << 60}, "shard_bytes.*1 PiB"),
        ({"kept": 2}, "kept: there is no such setting; did you mean keep"),
    ],
)
def test_hints_and_settings_out_of_range_are_refused_by_name(scratch, more, words):
    with pytest.raises(mainstay.InvalidArgument, match=words):
        pfs.open(scratch / "space", **more)


def test_no_room_is_told_and_the_last_stays(scratch):
    with pfs.open(scratch / "space", info={"mainstay_portion_bytes": "1MiB"}) as space:
        space.write(b"small")
        with pytest.raises(mainstay.PortionTooSmall, match="this shard needs"):
            space.write(bytes(8 << 20))
        into = bytearray(5)
        assert space.read(into).revision == 1 and into == b"small"


PROGRAM = """
import sys
import mainstay
import numpy as np
from mainstay import pfs
from mpi4py import MPI

comm = MPI.COMM_WORLD
info = MPI.Info.Create()
info.Set("mainstay_keep", "3")
with pfs.open(sys.argv[1], comm, count=1 << 20, info=info) as space:
    for step in range(1, 6):
        data = np.full(1000 * step + 10 * comm.rank, step * 100 + comm.rank, "i8")
        assert space.write(data) == step
    for step in (3, 4, 5, None):
        data = np.zeros(6000, "i8")
        got = space.read(data, revision=step)
        count = 1000 * (step or 5) + 10 * comm.rank
        assert (got.revision, got.bytes) == (step or 5, 8 * count)
        assert (data[:count] == (step or 5) * 100 + comm.rank).all() and not data[count:].any()
    for rank, wrong in enumerate(("text", None, 5)):
        try:
            space.write(wrong if comm.rank == rank else data)
        except mainstay.InvalidArgument as error:
            assert (f"on rank {rank}" in str(error)) == (comm.rank != rank), error
        else:
            raise AssertionError("it was saved")
        assert space.read(data).revision == 5
try:
    pfs.open(sys.argv[1], comm, info={"mainstay_keep": 2 + comm.rank})
except mainstay.InvalidArgument as error:
    assert str(error).startswith("keep: rank 1 has 3 and rank 0 has 2"), error
sys.stdout.write(f"= {comm.rank} done\\n")
"""


def test_ranks_write_and_read_together(mpi, scratch):
    program = scratch / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    status, output = run(RANKS, [mpi.command("python"), program, scratch / "space"], scratch, mpi=mpi)
    assert status == 0 and len(re.findall(r"^= \d done$", output, re.M)) == RANKS, output
