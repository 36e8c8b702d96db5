"""`mainstay run --virtual --files`: the restart files of ranks in slots are whole under their names, and come back
after a kill."""

import os
import re
import signal
import struct
import subprocess

import pytest
from command import MAINSTAY
from limits import LIMIT_S, until
from mpi import OPENMPI
from slots import build, hosts, on
from supervised import Run, run

RANKS, STEPS = 3, 6
NAMES = [f"{name}.{rank}" for name in ("restart", "previous") for rank in range(RANKS)]


@pytest.fixture(scope="module")
def program():
    return build("restarts.c")


@pytest.fixture(params=[0, 2], ids=["alone", "launched"])
def words(request, program, scratch, monkeypatch):
    """The command line of `mainstay run` for the program, in a folder of its own. The program stops at some holds."""
    monkeypatch.setenv("MAINSTAY_FILES_STAGE", str(scratch / "stage"))

    def words(folder, *holds):
        folder.mkdir(exist_ok=True)
        files = [f"--files={pattern}" for pattern in ("restart.*", "previous.*")]
        options = ["--restarts", 0, "--virtual", RANKS, *files, "--space", folder / "space", "--"]
        return [*options, *on(request.param, [program, STEPS, folder / "go", *holds], OPENMPI)]

    return words


def kill(running):
    found = hosts(running.process.pid)
    assert found
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    status, output = running.end()
    assert status not in (0, 75), output


def save(folder):
    saved = subprocess.run([MAINSTAY, "checkpoint", folder / "space"], capture_output=True, text=True, timeout=LIMIT_S)
    assert saved.returncode == 0, saved


def step_of(path):
    """The step in a restart file. The file must be whole."""
    numbers = struct.unpack("<20000Q", path.read_bytes())
    assert numbers[0] == sum(numbers[1:]), path
    return (numbers[1] - int(path.suffix[1:])) // 1000003


def steps_in(folder):
    """The steps in all files, once each closed file has its name."""
    complete = [MAINSTAY, "files", "--match", "none", "--", "true"]
    done = subprocess.run(complete, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done
    return {name: step_of(folder / name) for name in NAMES if (folder / name).exists()}


def undisturbed(calm, words):
    """Runs the job in the folder `calm`, and returns its output."""
    status, output = run(*words(calm), cwd=calm)
    assert status == 0, output
    return output


def is_as(folder, output, calm, expected):
    """Asserts that the job has the output and the files of the undisturbed one."""
    result = [line for line in expected.splitlines() if line.startswith("sum ")]
    assert len(result) == 1 and result[0] in output.splitlines(), output
    for name in [*NAMES, "restart.table", "restart.all"]:
        ours, theirs = folder / name, calm / name
        assert ours.read_bytes() == theirs.read_bytes() and ours.stat().st_mode == theirs.stat().st_mode, name
    hidden = {path.name for path in folder.iterdir() if path.name.startswith(".")}
    assert hidden == {".mainstay"}, hidden


def goes_on(folder, words):
    """Starts the job in `folder` again. It ends as an undisturbed one."""
    calm = folder.with_name("calm")
    expected = undisturbed(calm, words)
    holds = folder.joinpath("holds").read_text().split()
    status, output = run(*words(folder, *holds), cwd=folder)
    assert status == 0, output
    # The job went on from the checkpoint, and printed no line on its files.
    assert f"hold {holds[0]}" not in output and "restart." not in output.replace("--match restart.", ""), output
    is_as(folder, output, calm, expected)


def started(words, folder, *holds):
    folder.mkdir()
    (folder / "holds").write_text(" ".join(holds))
    return Run(*words(folder, *holds), cwd=folder)


def test_a_job_that_is_killed_in_a_write_leaves_whole_files_and_goes_on(words, scratch):
    """At its last checkpoint the files were closed. Since then the job has renamed them."""
    folder = scratch / "job"
    with started(words, folder, "3:begin", "4:middle") as running:
        running.until("^hold 3:begin$")
        save(folder)
        folder.joinpath("go.3").touch()
        running.until("^hold 4:middle$")
        kill(running)
    assert steps_in(folder) == {f"previous.{rank}": 3 for rank in range(RANKS)}
    assert {path.name for path in (folder / ".mainstay" / "torn").iterdir()} == {"restart.all", *NAMES[:RANKS]}
    folder.joinpath("go.4").touch()
    goes_on(folder, words)


def test_a_file_that_was_half_written_at_the_checkpoint_ends_whole(words, scratch):
    folder = scratch / "job"
    with started(words, folder, "2:middle") as running:
        running.until("^hold 2:middle$")
        save(folder)
        kill(running)
    assert steps_in(folder) == {f"previous.{rank}": 1 for rank in range(RANKS)}
    folder.joinpath("go.2").touch()
    goes_on(folder, words)


@pytest.mark.parametrize("words", [2], indirect=True, ids=["launched"])
def test_a_rank_takes_a_half_written_file_along_to_another_process(words, scratch):
    calm, folder = scratch / "calm", scratch / "job"
    expected = undisturbed(calm, words)
    folder.mkdir()
    # The command lines of the hosts, each on a node of its own.
    hosts_of = re.search(r"\S+ files --job .*$", expected, re.M)[0].replace(str(calm), str(folder))
    on_nodes = ["sh", "-c", 'export MAINSTAY_NODE="n$OMPI_COMM_WORLD_RANK"; exec "$@"', "sh"]
    command = OPENMPI.mpiexec(2, [*on_nodes, *hosts_of.split(), "2:middle"])
    output = folder / "output"
    with output.open("w") as file:
        environment = OPENMPI.environment(scratch)
        job = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True)
    try:
        until(lambda: "hold 2:middle" in output.read_text())
        save(folder)
        words = [MAINSTAY, "evacuate", folder / "space", "n1", "--timeout", "1min"]
        left = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
        assert left.returncode == 0 and left.stdout.startswith("1 object and "), left
        # The old process has not published the half.
        assert steps_in(folder) == {f"previous.{rank}": 1 for rank in range(RANKS)}
        folder.joinpath("go.2").touch()
        assert job.wait(LIMIT_S) == 0, output.read_text()
    finally:
        job.terminate()
        job.wait(LIMIT_S)
    is_as(folder, output.read_text(), calm, expected)


def test_a_renamed_folder_takes_the_open_files_of_its_rank_along(scratch, monkeypatch):
    monkeypatch.setenv("MAINSTAY_FILES_STAGE", str(scratch / "stage"))
    folder = scratch / "job"
    folder.mkdir()
    options = ["--restarts", 0, "--virtual", RANKS, "--files=restart", "--space", folder / "space", "--"]
    status, output = run(*options, *on(0, [build("folders.c")], OPENMPI), cwd=folder)
    assert status == 0, output
    for rank in range(RANKS):
        assert (folder / f"done.{rank}" / "restart").read_text() == "first and last"
        assert (folder / f"done.{rank}" / ".mainstay").exists() and not (folder / f"new.{rank}").exists()
