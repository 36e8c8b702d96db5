"""Checkpoints written in pieces: examples/patches, in each language, and their traces in the space."""

import re
import subprocess

import library
import numpy as np
import pytest
from jobs import RANKS, run
from limits import LIMIT_S
from mpi import BUILT, ROOT
from programs import build_fortran, place
from ways import rarely

EXAMPLE = ROOT / "examples" / "patches"


def program(language, mpi):
    if language == "python":
        return [mpi.command("python"), EXAMPLE / "patches.py"]
    if language == "fortran":
        return [build_fortran(EXAMPLE / "patches.f90", "patches-fortran", mpi)]
    built = place(mpi, f"patches-{language}")
    compiler, standard = {"c": ("mpicc", "c11"), "cpp": ("mpicxx", "c++17")}[language]
    library.build(built, [EXAMPLE / f"patches.{language}"], "-O2", mpi=mpi, compiler=compiler, standard=standard)
    return [built]


@pytest.mark.parametrize("language", ["c", *rarely("cpp", "fortran", "python")])
def test_patches_come_back_and_go_on_as_if_nothing_had_been(language, mpi, scratch):
    command = program(language, mpi)

    def ends(folder, steps):
        (scratch / folder).mkdir(exist_ok=True)
        status, output = run(RANKS, [*command, steps], scratch, mpi=mpi, cwd=scratch / folder)
        assert status == 0, output
        return output.splitlines()

    calm = ends("calm", 60)
    assert calm[0] == "from step 0"
    ends("again", 35)
    resumed = ends("again", 60)
    assert resumed[0] == "from step 30"
    assert re.match(r"step 60, sum +[1-9.]", resumed[1]), resumed
    assert resumed[1] == calm[1]

    mainstay = mpi.command("mainstay") if language == "python" else BUILT / "mainstay"
    space, out = scratch / "again" / "space", scratch / "out"
    subprocess.run([mainstay, "verify", space], check=True, capture_output=True, timeout=LIMIT_S)
    page = subprocess.check_output([mainstay, "show", space], text=True, timeout=LIMIT_S)
    assert len(re.findall(r"^ *[01]  patches +stream", page, re.M)) == RANKS, page
    subprocess.run([mainstay, "export", space, out], check=True, capture_output=True, timeout=LIMIT_S)
    with (out / "shard" / "0001" / "patches.bin").open("rb") as file:
        if language == "python":
            patches = [np.load(file) for _ in range(4)]
        else:
            patches = [np.fromfile(file, "f8", int(np.fromfile(file, "u8", 1)[0])) for _ in range(4)]
        assert file.read() == b""
    assert [patch.size for patch in patches] == [150] * 4
    assert all(patch.min() > 0 for patch in patches)
