"""A training with PyTorch that is killed again and again ends with the weights of an undisturbed one."""

import json
import os
import re
import shutil
import subprocess
import threading
import zipfile

import pytest
from command import MAINSTAY
from limits import LIMIT_S
from mpi import ROOT

pytestmark = pytest.mark.campaign  # it takes PyTorch

EXAMPLE = ROOT / "examples" / "train"
STEPS = 50
# PyTorch comes with the system's Python, which is another one than that of the other tests.
PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Where that Python finds Mainstay: the wheel is for all."""
    found = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True) if shutil.which(PYTHON) else None
    if found is None or found.returncode != 0:
        pytest.skip("no PyTorch here; on Debian and Ubuntu: apt-get install python3-torch")
    (wheel,) = (ROOT / "target" / "python").glob("*.whl")
    folder = tmp_path_factory.mktemp("library")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def run(library, code):
    """Runs a line of Python where PyTorch and Mainstay are."""
    environment = {**os.environ, "PYTHONPATH": str(library)}
    command = [PYTHON, "-c", f"import mainstay, torch; {code}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)


def train(library, space, capture="whole", kill_at=None, program="train"):
    """The lines of its output; `kill_at`: killed after that step."""
    environment = {**os.environ, "PYTHONPATH": str(library), "MAINSTAY_CAPTURE": capture}
    command = [PYTHON, EXAMPLE / f"{program}.py", space, str(STEPS)]
    lines = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        for line in process.stdout:
            lines.append(line)
            if line.startswith(f"step {kill_at}:"):
                process.kill()
        limit.cancel()
    return lines


@pytest.fixture(scope="module", params=["train", "on_gpu"])
def program(library, request):
    if request.param == "on_gpu" and run(library, "torch.zeros(1).cuda()").returncode != 0:
        pytest.skip("no GPU here that PyTorch can use")
    return request.param


@pytest.fixture(scope="module")
def undisturbed(library, program, tmp_path_factory):
    lines = train(library, tmp_path_factory.mktemp("undisturbed") / "space", program=program)
    assert lines[-1].startswith(f"done: step {STEPS}, weights "), lines
    return lines


@pytest.mark.parametrize("capture", ["whole", "incremental", "incremental-snapshot"])
def test_a_training_that_is_killed_ends_with_the_same_weights(library, program, undisturbed, scratch, capture):
    space = scratch / "space"
    kills = (7, 33)
    for before, kill_at in zip((None, *kills), (*kills, None)):
        lines = train(library, space, capture, kill_at, program)
        went_on = re.fullmatch(r"going on at step (\d+)\n", lines[0])
        # The step after the last printed one may be saved as well.
        assert (int(went_on[1]) >= before - 1) if before else not went_on, lines[:2]
    assert lines[1:] == undisturbed[1 - len(lines) :]


def test_a_training_is_the_same_as_one_that_saves_nothing(library, program, undisturbed, scratch):
    text = (EXAMPLE / f"{program}.py").read_text()
    text = re.sub(r"# An optimizer makes its tensors.*?# ANCHOR_END: restore", "step = 0", text, flags=re.DOTALL)
    text = re.sub(r"# ANCHOR: checkpoint.*?# ANCHOR_END: checkpoint", "", text, flags=re.DOTALL)
    text = text.replace("session.close()\n", "").replace("import mainstay\n", "")
    assert "session" not in text
    (scratch / "plain.py").write_text(text)
    command = [PYTHON, scratch / "plain.py", "no space", str(STEPS)]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert plain.stdout.splitlines(keepends=True) == undisturbed


def test_frozen_weights_are_written_once(library, scratch):
    train(library, scratch / "space", "incremental")
    shown = subprocess.run([MAINSTAY, "show", scratch / "space"], capture_output=True, text=True, timeout=LIMIT_S)
    assert re.search(r"shares 16 KiB with revision", shown.stdout), shown.stdout


def test_a_tensor_is_refused_with_what_to_protect_instead(library, scratch):
    refused = run(library, f"mainstay.open({str(scratch / 'space')!r}).protect('weights', torch.zeros(3))")
    assert "InvalidArgument" in refused.stderr and "tensor.numpy()" in refused.stderr, refused.stderr


def test_what_a_checkpoint_costs_a_training_is_beside_a_copy_and_a_write(library, scratch):
    environment = {**os.environ, "PYTHONPATH": str(library), "QUICK": "1"}
    command = [PYTHON, ROOT / "bench" / "training.py", "--mib", "1", "--out", scratch]
    subprocess.run(command, env=environment, check=True, timeout=LIMIT_S)
    against = {row["metric"]: row["reference"] for row in json.loads((scratch / "training.json").read_text())}
    for side in ("mainstay", "torch_save"):
        assert against[f"{side}_waits"] == "copy" and against[f"{side}_durable"] == "raw_write"
    assert [path.name for path in scratch.iterdir()] == ["training.json"]
