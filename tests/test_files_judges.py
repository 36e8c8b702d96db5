"""Programs that nobody here wrote, killed at random moments: the restart file under its name is always a whole one."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from protected import build, end_of, kill_group, node_in

pytestmark = pytest.mark.campaign
KILLS = int(os.environ.get("FILES_KILLS", "50"))
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
OF_H5 = "import h5py\nwith h5py.File('restart') as file: data = [*file['x'][:], *file['y'][:]]"
OF_NPZ = "import numpy as np\nfile = np.load('restart'); data = [*file['x'], *file['y']]"
OF_RECORD = "import numpy as np\ndata = np.fromfile('restart', np.int32)[1:-1]; assert len(data) == 400000"
OF_TEXT = "data = list(map(int, open('restart').read().split())); assert len(data) == 100000"


def python(text):
    return [sys.executable, "-c", text]


WRITERS = {
    "h5py": (lambda: python(LOOP.format("import h5py", H5)), OF_H5),
    "h5py-update": (lambda: python(LOOP.format("import h5py", H5_UPDATE)), OF_H5),
    "savez": (lambda: python(LOOP.format("", NPZ)), OF_NPZ),
    "cp": (lambda: python(LOOP.format("import subprocess", COPY.split("\n", 1)[1].lstrip())), OF_TEXT),
    "fortran": (lambda: [build("record.f90", "record", compiler="gfortran")], OF_RECORD),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_killed_writer_leaves_a_whole_file(scratch, writer):
    """A third of the kills take the helper along. The file is never older than the last one that was closed."""
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
                helper = node.helper() if number % 3 == 0 else None
                os.killpg(program.pid, signal.SIGKILL)
                if helper:
                    end_of(helper)
                lines += program.stdout.readlines()
                kill_group(program)
            closed = int([line for line in lines if line.endswith("\n")][-1])
            done = node.files(python(reader + "\nassert len(set(data)) == 1\nprint(int(data[0]))"), code=None)
            # 75: the helper saw the end of the killed writer after the start of this program.
            assert done.returncode in (0, 75), (number, done.stdout, done.stderr)
            step = int(done.stdout)
            assert closed <= step <= closed + 1, (number, closed, done)
            torn += (node.folder / ".mainstay" / "torn" / "restart").exists()
            subprocess.run(["rm", "-rf", node.folder / ".mainstay" / "torn"], check=True)
            closed = step
        print(f"{writer}: {KILLS} kills, {torn} in the middle of a file, {KILLS} whole files")
