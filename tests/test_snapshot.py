"""Snapshots in jobs on MPI: the program goes on at once, and comes back with the data of its checkpoint."""

import json
import re
import subprocess
import sys

import mainstay
import ml_dtypes
import numpy as np
import pytest
from jobs import run
from limits import LIMIT_S
from mpi import BUILT
from programs import PYTHON, build_c
from ways import rarely

MAINSTAY = BUILT / "mainstay"
STEPS = 26
DEATH = 20
RANKS = 2


def sums(said):
    return sorted(re.findall(r"sum of rank .+", said))


@pytest.mark.parametrize(
    ("capture", "memory"), [("incremental-snapshot", "auto"), *rarely(("snapshot", "off"), ("snapshot", "auto"))]
)
def test_a_program_that_writes_at_once_comes_back(capture, memory, mpi, scratch):
    program = build_c(["snapshot.c"], "snapshot", mpi=mpi)
    comes_back([program], capture, memory, mpi, scratch)


@pytest.mark.campaign
@pytest.mark.parametrize("capture", ["snapshot", "incremental-snapshot"])
def test_an_array_that_mainstay_allocates_comes_back_in_python(capture, mpi, scratch):
    comes_back([mpi.command("python"), PYTHON / "snapshot.py"], capture, "off", mpi, scratch)


def comes_back(command, capture, memory, mpi, scratch):
    """It is killed while a snapshot may be copied, started again, and ends as if nothing had happened."""
    (scratch / "mainstay.toml").write_text(
        f'capture = "{capture}"\nsnapshot_bytes = 0\nmemory = "{memory}"\nmemory_copies = 1\n'
    )
    more = {"mpi": mpi, "cwd": scratch}
    status, calm = run(RANKS, [*command, scratch / "calm", STEPS], scratch, **more)
    assert status == 0 and "from step 0\n" in calm and "WRONG" not in calm, calm
    assert "snapshot" not in calm, calm
    assert len(set(sums(calm))) == RANKS, calm
    if capture == "snapshot" and memory == "off":
        # Without snapshots it comes to the same.
        status, plain = run(RANKS, [*command, scratch / "plain", STEPS], scratch, mpi=mpi)
        assert status == 0 and sums(plain) == sums(calm), plain
    status, killed = run(RANKS, [*command, scratch / "space", STEPS, DEATH], scratch, **more)
    assert status != 0 and "sum" not in killed and "WRONG" not in killed, killed
    status, again = run(RANKS, [*command, scratch / "space", STEPS], scratch, **more)
    assert status == 0 and "WRONG" not in again, again
    assert re.search(r"^from step (12|16|20)$", again, re.M), again
    assert sums(again) == sums(calm)
    shown = json.loads(subprocess.check_output([MAINSTAY, "show", "--json", scratch / "space"]))
    copied_by = {shard["profile"]["copied_by"] for shard in shown["revision"]["shard_list"]}
    assert copied_by <= {"clone", "protection"}, copied_by
    said = subprocess.check_output([MAINSTAY, "show", scratch / "space"], text=True)
    assert "2 shards copied after the program had gone on" in said, said


REFUSED = """
import ctypes, struct, sys
import mainstay

# Has this thread refused the call `userfaultfd` (323 on x86-64), as many containers do.
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 323), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program)) == 0
with mainstay.open(sys.argv[1], capture="snapshot", snapshot_bytes=0) as session:
    field = session.empty("field", 1 << 20)
    for step in range(3):
        field += step
        saved = field.copy()
        session.checkpoint()
        field[:] = -1
        session.wait()
        session.get("field", field)
        assert (field == saved).all()
"""


def test_where_userfaultfd_is_refused_it_is_copied_at_once_and_said(scratch):
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, scratch / "space"], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("mainstay: ")]
    assert len(lines) == 1 and "no snapshot could be taken" in lines[0], done.stderr
    said = subprocess.check_output([MAINSTAY, "show", scratch / "space"], text=True)
    assert "1 shard copied before the program went on" in said, said


def test_what_empty_takes(scratch):
    with mainstay.open(scratch / "space", capture="snapshot", snapshot_bytes=0) as session:
        one = session.empty("one", (3, 5), "i4")
        assert one.shape == (3, 5) and one.dtype == np.int32 and not one.any()
        assert session.empty("none", (0, 7)).shape == (0, 7)
        assert session.empty("number", ()).shape == ()
        # Also types for which numpy's array interface has only the size.
        types = [("x", "f8"), ("n", "i4", (2,))], ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ("f8", (2,)), "M8[s]", "U3"
        for number, dtype in enumerate(types):
            made, like = session.empty(f"typed-{number}", (2, 3), dtype), np.zeros((2, 3), dtype)
            assert (made.dtype, made.shape) == (like.dtype, like.shape) and (made == like).all()
            made.flags.writeable = True
        for wrong in (
            lambda: session.empty("one", 3),  # it has memory
            lambda: session.empty("a b", 3),
            lambda: session.empty("objects", 3, object),
            lambda: session.empty("large", 1 << 62),
        ):
            with pytest.raises((mainstay.InvalidArgument, mainstay.InvalidName)):
                wrong()
        with pytest.raises(mainstay.Error):
            session.empty("huge", 1 << 46)
        with pytest.raises(mainstay.RegionMissing):
            session.free("two")
        one[1, 2] = 7
        session.checkpoint()
        session.wait()
        one[:] = 0
        session.restore()
        assert one[1, 2] == 7 and one.sum() == 7
        session.free("one")
        assert session.empty("one", 3).sum() == 0 and one.sum() == 7
    # It stays as long as the array.
    one += 1
    assert one.sum() == 22
