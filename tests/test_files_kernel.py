"""`mainstay files --catch kernel`: programs that no library can catch. The programs kill themselves at a given step."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from limits import LIMIT_S, until
from mpi import BUILT
from programs import ROOT

MAINSTAY = BUILT / "mainstay"
SOURCE = ROOT / "tests" / "files" / "kernel.c"
OLD = ["open:restart:w", "put:old", "close"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The test program, linked statically, and one that makes system calls directly."""
    folder = tmp_path_factory.mktemp("kernel")
    for name, flags in {"static": ["-static"], "raw": ["-DRAW"]}.items():
        subprocess.run(["cc", "-O1", "-Wall", *flags, "-o", folder / name, SOURCE], check=True, timeout=LIMIT_S)
    return folder


@pytest.fixture(params=["static", "raw"])
def program(request, built):
    return built / request.param


@pytest.fixture
def stage():
    """A folder in memory. The helper must remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-files-kernel-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def protected(scratch, stage):
    """Runs the steps with the files `restart*` protected. Returns the exit code, the output, and the errors."""

    def run(program, *steps, catch=("--catch", "kernel"), inside=()):
        words = [MAINSTAY, "files", *catch, "--match", "restart*", "--stage", stage, "--", *inside, program, *steps]
        done = subprocess.run(words, cwd=scratch, capture_output=True, text=True, timeout=LIMIT_S)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def restart(scratch):
    """The content of a file; None if it is missing."""

    def read(name="restart"):
        path = scratch / name
        return path.read_text() if path.exists() else None

    return read


def generations(scratch):
    kept = scratch / ".mainstay" / "kept"
    return sorted(path.name for path in kept.iterdir() if not path.name.endswith(".hashes")) if kept.exists() else []


def test_a_file_is_staged_until_it_is_closed_and_read_back_at_once(program, protected, scratch, restart):
    steps = ["open:restart:w", "put:new", "stat:restart", "access:restart", "close", "show:restart", "stat:restart"]
    code, output, errors = protected(program, *steps)
    bytes_and_mode = f"restart has 3 bytes, mode {0o640 & ~umask():o}"
    assert (code, errors) == (0, "")
    assert output == f"{bytes_and_mode}, the open one\nrestart is 'new'\n{bytes_and_mode}\n"
    assert restart() == "new" and generations(scratch) == ["restart.g1"]


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_kill_in_the_middle_leaves_the_old_file(program, protected, restart):
    assert protected(program, *OLD)[0] == 0
    code, output, errors = protected(program, "open:restart:w", "put:ne", "show:restart", "kill")
    assert (code, output) == (128 + 9, "restart is 'ne'\n")
    assert restart() == "old" and "was killed with it open" in errors, errors


@pytest.mark.parametrize(("status", "content"), [(0, "new"), (1, "old")])
def test_the_exit_status_decides_about_a_file_that_is_left_open(status, content, program, protected, restart):
    assert protected(program, *OLD)[0] == 0
    code, _, errors = protected(program, "open:restart:w", "put:new", f"exit:{status}")
    assert code == status and restart() == content, errors


def test_a_file_that_was_closed_is_whole_though_the_program_fails_at_once(program, protected, restart):
    code, _, errors = protected(program, "open:restart:w", "put:new", "close", "exit:3")
    assert code == 3 and restart() == "new", errors


def test_an_update_in_place_is_a_new_generation(program, protected, scratch, restart):
    assert protected(program, *OLD)[0] == 0
    assert protected(program, "open:restart:u", "put:up", "close")[:2] == (0, "")
    assert restart() == "upd" and generations(scratch) == ["restart.g1", "restart.g2"]
    assert protected(program, "open:restart:u", "put:n", "kill")[0] == 128 + 9
    assert restart() == "upd"
    assert protected(program, "truncate:restart:2")[:2] == (0, "")
    assert restart() == "up"


def test_names_change_in_order_with_the_publication(program, protected, scratch, restart):
    assert protected(program, *OLD)[0] == 0
    steps = ["open:restart.tmp:w", "put:new", "close", "chmod:restart.tmp:600", "rename:restart.tmp:restart"]
    steps += ["show:restart", "show:restart.tmp", "link:restart:restart.2", "open:restart.2:x", "stat:restart.2"]
    code, output, errors = protected(program, *steps)
    lines = ["restart is 'new'", "show:restart.tmp: No such file or directory", "open:restart.2:x: File exists"]
    assert (code, output.splitlines()) == (0, [*lines, "restart.2 has 3 bytes, mode 600"]), errors
    assert (restart(), restart("restart.tmp"), restart("restart.2")) == ("new", None, "new")
    code, output, errors = protected(program, "open:restart:w", "put:x", "close", "unlink:restart", "stat:restart")
    assert (code, output) == (0, "stat:restart: No such file or directory\n"), errors
    assert restart() is None and not any(name.startswith("restart.g") for name in generations(scratch))


def test_a_file_that_is_open_may_be_renamed_and_removed(program, protected, scratch, restart):
    steps = ["open:restart.a:w", "put:n", "link:restart.a:restart.c", "rename:restart.a:restart.b", "put:ew", "close"]
    code, output, errors = protected(program, *steps, "show:restart.b")
    busy = "link:restart.a:restart.c: Device or resource busy"
    assert (code, output.splitlines()) == (0, [busy, "restart.b is 'new'"]), errors
    assert (restart("restart.a"), restart("restart.b")) == (None, "new")
    code, output, errors = protected(
        program, "open:restart.d:w", "put:x", "unlink:restart.d", "close", "stat:restart.d"
    )
    assert (code, output, errors) == (0, "stat:restart.d: No such file or directory\n", "")
    assert restart("restart.d") is None and generations(scratch) == ["restart.b.g1"]


def test_a_renamed_folder_takes_its_files_along(program, protected, scratch):
    """One file is open, and one has no name yet."""
    (scratch / "new").mkdir()
    steps = ["open:new/restart.1:w", "put:one", "close", "open:new/restart.2:w", "put:tw", "rename:new:done", "put:o"]
    code, output, errors = protected(program, *steps, "show:done/restart.1", "show:done/restart.2", "close")
    assert (code, output) == (0, "done/restart.1 is 'one'\ndone/restart.2 is 'two'\n"), errors
    assert [(scratch / "done" / f"restart.{number}").read_text() for number in (1, 2)] == ["one", "two"]
    assert not (scratch / "new").exists() and generations(scratch / "done") == ["restart.1.g1", "restart.2.g1"]


def test_a_pattern_for_a_path_holds_through_a_linked_folder(built, scratch, stage):
    (scratch / "real").mkdir()
    words = [
        MAINSTAY,
        "files",
        "--catch",
        "kernel",
        "--match",
        "*/out/restart",
        "--stage",
        stage,
        "--",
        built / "static",
    ]
    (scratch / "out").symlink_to("real")
    done = subprocess.run(
        [*words, "open:out/restart:w", "put:new", "close"], cwd=scratch, capture_output=True, timeout=LIMIT_S
    )
    assert done.returncode == 0 and generations(scratch / "real") == ["restart.g1"], done


def test_a_child_that_is_killed_with_the_file_open_leaves_the_old_file(program, protected, restart):
    """The parent has closed the file. Once the child is gone, the kernel sees no writer."""
    assert protected(program, *OLD)[0] == 0
    code, output, errors = protected(
        program, "open:restart:w", "put:n", "fork", "put:e", "kill", "end", "close", "join", "stat:restart"
    )
    assert (code, output.splitlines()[0]) == (75, "child killed"), errors
    assert restart() == "old" and "was killed with it open" in errors


def test_a_child_that_has_closed_the_file_may_be_killed(program, protected, restart):
    # At each call with a name the helper looks at the holders.
    child = ["fork", "close", "stat:restart", "kill", "end"]
    code, output, errors = protected(program, "open:restart:w", "put:n", *child, "join", "put:ew", "close")
    assert (code, output.splitlines()[-1]) == (0, "child killed"), errors
    assert restart() == "new"


def test_the_file_is_whole_once_parent_and_child_have_closed_it(program, protected, restart):
    code, output, errors = protected(
        program, "open:restart:w", "put:n", "fork", "put:ew", "end", "close", "join", "show:restart"
    )
    assert (code, output) == (0, "child ended\nrestart is 'new'\n"), errors
    assert restart() == "new"


def test_the_command_waits_for_a_process_that_the_program_leaves_behind(program, protected, restart):
    steps = ["fork", "open:restart:w", "put:new", "close", "end"]
    assert protected(program, *steps)[0] == 0
    assert restart() == "new"


def test_a_helper_that_takes_over_knows_the_files_that_were_closed_meanwhile(program, scratch, stage, restart):
    words = [MAINSTAY, "files", "--catch", "kernel", "--match", "restart*", "--stage", stage, "--", program]
    steps = ["open:restart:w", "put:new", "stop", "close"]
    with subprocess.Popen([*words, *steps], cwd=scratch, stdout=subprocess.PIPE, text=True) as job:
        stopped = int(job.stdout.readline())
        until(lambda: Path(f"/proc/{stopped}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
        helper = pid_of_helper(stage)
        os.kill(helper, signal.SIGKILL)
        until(lambda: not is_alive(helper))
        os.kill(stopped, signal.SIGCONT)
        assert job.wait(LIMIT_S) == 0
    assert restart() == "new"


def test_a_helper_that_takes_over_after_a_close_gives_the_file_its_name(program, scratch, stage, restart):
    """Before, the program's next call with a name met a helper that took the file for a killed program's."""
    words = [MAINSTAY, "files", "--catch", "kernel", "--match", "restart*", "--stage", stage, "--", program]
    steps = ["open:restart:w", "put:new", "close", "stop", "show:restart"]
    with subprocess.Popen([*words, *steps], cwd=scratch, stdout=subprocess.PIPE, text=True) as job:
        stopped = int(job.stdout.readline())
        helper = pid_of_helper(stage)
        os.kill(helper, signal.SIGKILL)
        until(lambda: not is_alive(helper))
        until(lambda: Path(f"/proc/{stopped}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
        os.kill(stopped, signal.SIGCONT)
        assert job.stdout.read() == "restart is 'new'\n" and job.wait(LIMIT_S) == 0
    assert restart() == "new"


def test_the_program_is_killed_with_its_supervisor_and_leaves_the_old_file(program, protected, scratch, stage, restart):
    assert protected(program, *OLD)[0] == 0
    words = [MAINSTAY, "files", "--catch", "kernel", "--match", "restart*", "--stage", stage, "--", program]
    with subprocess.Popen(
        [*words, "open:restart:w", "put:n", "stop"], cwd=scratch, stdout=subprocess.PIPE, text=True
    ) as job:
        stopped = int(job.stdout.readline())
        job.kill()
    until(lambda: not is_alive(stopped))
    code, output, errors = protected(program, "show:restart")
    # 75 only if the helper sees the kill after this start. A helper that has ended prints no line.
    assert code in (0, 75) and output == "restart is 'old'\n", errors
    assert (scratch / ".mainstay" / "torn" / "restart").exists()
    assert restart() == "old"


def pid_of_helper(stage):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
        asker.connect(str(stage / "socket"))
        return struct.unpack("3i", asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def is_alive(pid):
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_other_files_and_logs_are_left_alone(program, protected, scratch, restart):
    (scratch / "restart.log").write_text("first\n")
    steps = ["open:other:w", "put:x", "close", "show:other", "open:restart.log:a", "put:second", "close"]
    code, output, errors = protected(program, *steps)
    assert (code, output, errors) == (0, "other is 'x'\n", "")
    assert restart("restart.log") == "first\nsecond" and not (scratch / ".mainstay").exists()


def test_each_refusal_names_the_way_out(built, protected):
    code, _, errors = protected(built / "static", catch=())
    assert code == 126 and "is linked statically" in errors and "or give --catch kernel" in errors
    # `mainstay files` inside of `mainstay files`: the inner one refuses.
    inside = [MAINSTAY, "files", "--catch", "kernel", "--match", "x", "--"]
    code, _, errors = protected(built / "static", inside=inside)
    assert code == 126 and "runs under `mainstay files --catch kernel` already" in errors
    # The kernel itself refuses a second listener.
    code, _, errors = protected(built / "static", inside=["env", "-u", "MAINSTAY_FILES_CATCH", *inside])
    assert code == 126 and "another program catches its calls already. Start it outside" in errors
    code, _, errors = protected(built / "none")
    assert code == 127 and "cannot be started" in errors
