"""Compressed revisions of real jobs: killed during the write, read by the command, and restarted."""

import random
import re
import subprocess
import time

import h5py
import numpy
import pytest
from command import MAINSTAY, arrays, mainstay
from job import Job
from jobs import run
from limits import LIMIT_S
from mpi import MPICH, OPENMPI
from programs import PYTHON
from ways import rarely

MPIS = pytest.mark.parametrize("mpi", [OPENMPI, MPICH], ids=str)
SAVED = re.compile(r"^saved step (\d+)$")
ENDLESS, KILLS = 10**6, 4
# Each with other settings that a user may have chosen.
SETTINGS = {
    "lz4": {"compress": "lz4"},
    "zstd, incremental": {"compress": "zstd", "capture": "incremental", "keep": 2},
    "zstd, memory": {"compress": "zstd", "memory": "auto"},
    "lz4, direct": {"compress": "lz4", "stage": "direct", "per": "rank"},
}


def words(mpi, space, steps, **settings):
    variables = [f"MAINSTAY_{name.upper()}={value}" for name, value in settings.items()]
    return ["env", *variables, mpi.command("python"), PYTHON / "compressed.py", space, steps]


@MPIS
@pytest.mark.parametrize("name", rarely(*SETTINGS))
def test_a_job_in_python_comes_back_bit_by_bit(mpi, scratch, name):
    space, least = scratch / "space", 0
    chance = random.Random(name)
    for _ in range(KILLS):
        with Job(2, words(mpi, space, ENDLESS, **SETTINGS[name]), scratch, LIMIT_S, mpi) as job:
            last, until = 0, chance.randrange(2, 7)
            for line in job.lines():
                assert "wrong" not in line, line
                if restored := re.match(r"restored step (\d+)$", line):
                    assert int(restored[1]) >= least, f"step {least} was sure, and {restored[1]} came back"
                if match := SAVED.match(line):
                    last, until = int(match[1]), until - 1
                    if until == 0:
                        time.sleep(chance.uniform(0, 0.05))
                        job.kill_rank(chance.randrange(2))
            assert job.wait() != 0, job.tail()
        # A checkpoint begins once the one before is complete.
        least = max(least, last - 1)
    status, output = run(2, words(mpi, space, least + 3, **SETTINGS[name]), scratch, mpi=mpi)
    assert status == 0 and "done" in output and "restored step" in output, output


def test_the_command_reads_what_is_compressed_and_says_what_it_cannot_show(scratch):
    space = scratch / "space"
    status, output = run(2, words(OPENMPI, space, 3, compress="zstd", keep=2), scratch)
    assert status == 0, output
    page = subprocess.run([MAINSTAY, "show", space], capture_output=True, text=True, timeout=LIMIT_S).stdout
    assert re.search(r"; \S+ MiB are compressed into \S+ [KM]iB", page), page
    told = mainstay("show", space)["revision"]
    plain, stored = (told["compressed"][of] for of in ("plain_bytes", "stored_bytes"))
    assert 6 * 10**6 < plain < 8 * 10**6 and stored < plain / 10, told["compressed"]
    of = {
        item["name"]: any(extent["compressed"] for extent in item["extents"]) for item in told["shard_list"][0]["items"]
    }
    assert of["smooth"], of
    mainstay("verify", space)
    mainstay("diff", space, 2, 3)
    found = arrays(scratch / "out", mainstay("export", space, scratch / "out"))
    expected = numpy.arange(400_003, dtype="f8") // 64 + 3
    assert numpy.array_equal(found[0, "smooth"], expected) and numpy.array_equal(found[1, "smooth"], expected + 1)
    viewed = mainstay("view", space, "--hdf5", scratch / "in_place.h5", "--no-hold")
    left_out = {of["item"]: of["why"] for of in viewed["left_out"]}
    assert "it is compressed" in left_out["smooth"] and "mainstay export" in left_out["smooth"], viewed
    copied = mainstay("view", space, "--hdf5", scratch / "copy.h5", "--copy")
    assert not copied["left_out"], copied
    with h5py.File(scratch / "copy.h5") as file:
        assert numpy.array_equal(file["shard/0001/smooth"][:], expected + 1)
