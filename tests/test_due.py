"""Requests for a checkpoint reach a running job: from `mainstay checkpoint`, from a signal, and from `mainstay run`
before its end."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from command import mainstay as told_by
from jobs import run
from limits import LIMIT_S
from mpi import OPENMPI, ROOT
from programs import build_c, build_cxx, build_fortran
from staged import pool_directory
from test_run import MAINSTAY, RANKS, Run, children, jacobi3d, shell, show  # noqa: F401
from ways import rarely

NEVER = 10**9  # steps


def mainstay(*arguments):
    return subprocess.run([MAINSTAY, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S)


def newest(space):
    """The number of the newest complete revision; None: there is none."""
    revision = show(space)["revision"]
    return revision and revision["revision"]


def await_newest(space, number):
    """A checkpoint that the program has gone on from is complete a little later."""
    deadline = time.monotonic() + LIMIT_S
    while newest(space) != number:
        assert time.monotonic() < deadline, f"revision {number} did not become complete"
        time.sleep(0.05)


def signal_rank(supervisor, rank, number, mpi):
    """A signal to one rank of the mpiexec that `mainstay run` has as its child."""
    (mpiexec,) = children(supervisor)
    ranks = mpi.ranks(mpiexec)
    signal.pidfd_send_signal(ranks[rank], number)
    for pidfd in ranks.values():
        os.close(pidfd)


def test_mainstay_checkpoint_has_a_running_job_save_itself_and_go_on(jacobi3d, tmp_path):  # noqa: F811
    space = tmp_path / "space"
    with Run("--", *jacobi3d(space, NEVER, "--every", NEVER, "--progress", 10)) as running:
        running.until(r"step 20$")
        for revision in (1, 2):
            asked = mainstay("checkpoint", space, "--timeout", "4min")
            assert (asked.returncode, asked.stdout) == (0, f"revision {revision} is complete\n"), asked.stderr
            assert newest(space) == revision
            running.until(r"step \d+$")
        asked = mainstay("checkpoint", "--json", space)
        assert '"revision": 3' in asked.stdout, asked.stdout
        # Requests that come together are met by one checkpoint or two, and all are answered.
        many = [subprocess.Popen([MAINSTAY, "checkpoint", space], stdout=subprocess.PIPE, text=True) for _ in range(5)]
        answers = [process.communicate(timeout=LIMIT_S)[0] for process in many]
        assert all(re.fullmatch(r"revision \d+ is complete\n", answer) for answer in answers), answers


def test_who_asks_where_nobody_listens_is_told(tmp_path):
    assert mainstay("checkpoint", tmp_path / "nothing").returncode == 3
    space = tmp_path / "space"
    holds = f"""
import fcntl, struct, time, os
os.mkdir({str(space)!r})
lock = open({str(space / "lock")!r}, "w+b")
fcntl.fcntl(lock, 37, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0))
print("ready", flush=True)
time.sleep(50)
"""
    with subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout.readline() == "ready\n"
            asked = mainstay("checkpoint", space, "--timeout", "300ms")
            assert asked.returncode == 1 and "must call mainstay_due" in asked.stderr, asked.stderr
            assert (space / "lock").read_bytes()[:8] == bytes(8), "the request was not withdrawn"
        finally:
            job.kill()
    asked = mainstay("checkpoint", space)
    assert asked.returncode == 1 and "no job has" in asked.stderr, asked.stderr


@pytest.mark.parametrize("rank", [RANKS - 1, *rarely(0)])
def test_a_signal_to_one_rank_has_all_ranks_save(jacobi3d, tmp_path, rank, mpi, monkeypatch):  # noqa: F811
    space = tmp_path / "space"
    monkeypatch.setenv("MAINSTAY_CHECKPOINT_SIGNAL", "USR2")
    with Run("--", *jacobi3d(space, NEVER, "--every", NEVER, "--progress", 1)) as running:
        running.until(r"step 10$")
        signal_rank(running.process.pid, rank, signal.SIGUSR2, mpi)
        running.until(r"checkpoint 1 of step \d+")
        running.until(r"step \d+$")
        await_newest(space, 1)


def last_checkpoint(running, space):
    """Where the job came to, and where it would go on."""
    status, output = running.end()
    complete = re.search(r"mainstay: revision (\d+) of .* is complete", output)
    assert complete, output
    assert newest(space) == int(complete[1])
    return status, output


def test_a_job_saves_itself_before_it_is_ended(jacobi3d, tmp_path):  # noqa: F811
    space = tmp_path / "space"
    with Run("--", *jacobi3d(space, NEVER, "--every", NEVER, "--progress", 10)) as running:
        running.until(r"step 20$")
        running.process.send_signal(signal.SIGTERM)
        status, output = last_checkpoint(running, space)
    assert status != 0 and "not starting it again" in output, output
    assert output.index("last checkpoint") < output.index("is complete") < output.index("the job ended after SIGTERM")
    with Run("--", *jacobi3d(space, 1, "--every", NEVER)) as again:
        assert int(again.until(r"restored revision 1, continuing at step (\d+)")[1]) >= 20


def test_a_warning_of_the_batch_system_has_the_job_save_itself_and_go_on(jacobi3d, tmp_path):  # noqa: F811
    space = tmp_path / "space"
    with Run("--", *jacobi3d(space, NEVER, "--every", NEVER, "--progress", 10)) as running:
        running.until(r"step 20$")
        running.process.send_signal(signal.SIGUSR1)
        running.until(r"revision 1 of .* is complete")
        running.until(r"step \d+$")
        assert newest(space) == 1


# Looks for requests once, and comes to its next safe point once a file is there, or after some seconds.
SLOW = """
import os, sys, time
import mainstay
session = mainstay.open(sys.argv[1], agree_seconds=0)
session.protect("state", bytearray(8))
session.due(0)
print("ready", flush=True)
if sys.argv[2].startswith("/"):
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
else:
    time.sleep(float(sys.argv[2]))
for step in range(1, 10**9):
    if session.due(step):
        session.checkpoint()
        print("saved", flush=True)
    time.sleep(0.01)
"""


def test_a_job_is_asked_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    """It counted as one that is gone: SIGTERM came at once, SIGUSR1 killed it, and `mainstay checkpoint` found no job."""
    space = tmp_path / "space"
    monkeypatch.setenv("LD_PRELOAD", str(build_c(["nolocks.c"], "nolocks.so", "-shared", "-fPIC")))
    monkeypatch.setenv("NOLOCKS_IN", str(space))
    with Run("--", sys.executable, "-c", SLOW, space, 0) as running:
        running.until("^ready$")
        asked = mainstay("checkpoint", space)
        assert (asked.returncode, asked.stdout) == (0, "revision 1 is complete\n"), asked.stderr
        running.process.send_signal(signal.SIGUSR1)
        running.until("revision 2 of .* is complete")
        running.process.send_signal(signal.SIGTERM)
        _, output = running.end()
    assert re.search("revision 3 of .* is complete", output) and newest(space) == 3, output


@pytest.mark.campaign
@pytest.mark.parametrize("comes_first", ["limit", "signal"])
def test_a_signal_and_the_time_limit_ask_for_one_checkpoint(comes_first, tmp_path):
    """The second to come ended the job before it was taken, or had it waited for as long once more."""
    for seconds in (2, 8, 32, 128):
        space = tmp_path / str(seconds)
        job = ["--", sys.executable, "-c", SLOW, space, seconds + 3]
        with Run("--time-limit", f"{1000 + seconds}s", "--margin", "1000s", *job) as running:
            if running.until("^ready$|the time limit is near").string.strip() != "ready":
                running.end()  # it took too long to begin
                continue
            if comes_first == "limit":
                running.until("the time limit is near: asking the job for a last checkpoint")
            running.process.send_signal(signal.SIGTERM)
            _, output = last_checkpoint(running, space)
            break
    assert output.count("asking the job for a last checkpoint") == 1, output


def test_a_second_warning_does_not_end_the_job(tmp_path):
    """It was passed on while the checkpoint of the first was on its way, and killed the job."""
    gate = tmp_path / "gate"
    with Run("--", sys.executable, "-c", SLOW, tmp_path / "space", gate) as running:
        running.until("^ready$")
        for _ in range(3):
            running.signal(signal.SIGUSR1)
        gate.touch()
        # It may be seen complete before the program comes to say so.
        running.until_all("^saved$", r"revision \d+ of .* is complete")
        running.process.send_signal(signal.SIGUSR1)
        running.until("^saved$")


# Saves to two spaces, one after the other.
TWO_SPACES = """
import sys, time
import mainstay
sessions = [mainstay.open(path, agree_seconds=0) for path in sys.argv[1:]]
for session in sessions:
    session.protect("state", bytearray(8))
    session.due(0)
    session.checkpoint()
sessions[0].close()
print("ready", flush=True)
while True:
    if sessions[1].due(1):
        sessions[1].checkpoint()
    time.sleep(0.01)
"""


def test_a_space_that_the_job_has_closed_holds_its_end_up_no_longer(tmp_path):
    """SIGTERM reached the job only when the margin was over: batch systems do not wait so long."""
    spaces = [tmp_path / "first", tmp_path / "second"]
    with Run("--margin", "1000s", "--", sys.executable, "-c", TWO_SPACES, *spaces) as running:
        running.until("^ready$")
        running.process.send_signal(signal.SIGTERM)
        _, output = last_checkpoint(running, spaces[1])
    assert "the job ended after SIGTERM" in output, output


@pytest.mark.parametrize("arguments", [["--margin", "1s"], []])
def test_a_time_limit_beyond_all_clocks_is_none(arguments):
    """It ended in a panic."""
    with Run("--time-limit", "500000000000y", *arguments, *shell("exit 0")) as running:
        assert running.end()[0] == 0


def test_a_job_saves_itself_before_the_time_limit(jacobi3d, tmp_path):  # noqa: F811
    """It failed where the machine was so busy that the job had not begun when its time was over."""
    command = jacobi3d(tmp_path / "space", NEVER, "--every", NEVER, "--progress", 1)
    for seconds in (2, 8, 32, 128):
        with Run("--time-limit", f"{100 + seconds}s", "--margin", "100s", "--", *command) as running:
            came_first = running.until(r"step \d+$|the time limit is near").string
            if came_first.startswith("step"):
                status, output = last_checkpoint(running, tmp_path / "space")
                break
            running.end()
    assert status != 0 and "the time limit is near: asking the job for a last checkpoint" in output, output
    assert "not starting it again" in output and output.count("mainstay: start ") == 1, output


def test_a_job_that_takes_no_requests_is_ended_at_the_time_limit_all_the_same():
    with Run("--time-limit", "2s", "--margin", "1s", *shell("exec sleep 500")) as running:
        status, output = running.end()
    assert status == 128 + signal.SIGTERM and "asking the job to end" in output, output


def test_a_second_sigterm_ends_the_job_at_once(tmp_path):
    """One that does not come to a safe point."""
    with Run("--margin", "1000s", "--", sys.executable, "-c", SLOW, tmp_path / "space", 1000) as running:
        running.until("^ready$")
        running.process.send_signal(signal.SIGTERM)
        running.until("asking the job for a last checkpoint")
        running.process.send_signal(signal.SIGTERM)
        status, output = running.end()
    assert status == 128 + signal.SIGTERM and "is complete" not in output, output


def test_a_margin_beyond_the_time_limit_is_refused_and_the_usual_one_never_is():
    with Run("--time-limit", "5s", "--margin", "5s", *shell("exit 0")) as running:
        status, output = running.end()
    assert status == 2 and "5s" in output and "--margin" in output, output
    with Run("--time-limit", "100s", "--restarts", 0, *shell("exit 7")) as running:
        assert running.end()[0] == 7


# Saves to the memory of its node before the space, where it has room already; then says that writes there are held.
NEAR = """
import sys, time
import mainstay
session = mainstay.open(sys.argv[1], memory="auto", pfs_every=2, agree_seconds=0)
session.protect("state", bytearray(8))
session.due(0)
for _ in range(2):
    session.checkpoint()
session.wait()
open(sys.argv[2], "w").close()
print("ready", flush=True)
for step in range(1, 10**9):
    if session.due(step):
        session.checkpoint()
        print("saved", flush=True)
    time.sleep(0.01)
"""


@pytest.fixture
def near(scratch, monkeypatch):
    """A job of which no write to the space returns while a file is there; where the space is, and that file."""
    space, held = scratch / "space", scratch / "held"
    shim = build_c(["inject.c"], "inject.so", "-shared", "-fPIC")
    variables = {"LD_PRELOAD": shim, "INJECT": "write:hold", "INJECT_WHEN": held, "INJECT_SPACE": space}
    with pool_directory() as pools:
        variables = [f"{name}={value}" for name, value in {**variables, "MAINSTAY_POOL_DIRECTORY": pools}.items()]
        yield ["--", "env", *variables, sys.executable, "-c", NEAR, space, held], space, held


def test_a_revision_in_memory_alone_is_not_complete_for_whoever_asks(near):
    """It was said to be, and the job was ended before it came to the space."""
    job, space, held = near
    with Run(*job) as running:
        running.until("^ready$")
        asked = mainstay("checkpoint", space, "--timeout", "2s")
        assert asked.returncode == 1 and "revision 3 is complete in memory, and after 2s not in" in asked.stderr, asked
        held.unlink()
        asked = mainstay("checkpoint", space)
        assert (asked.returncode, asked.stdout) == (0, "revision 4 is complete\n"), asked


def test_a_job_with_levels_is_ended_once_its_last_checkpoint_is_in_the_space(near):
    job, space, held = near
    with Run(*job) as running:
        running.until("^ready$")
        running.process.send_signal(signal.SIGTERM)
        running.until("^saved$")
        time.sleep(0.5)
        held.unlink()
        status, output = running.end()
    assert "revision 3 of" in output and "not starting it again" in output, output
    (newest_there,) = [one for one in told_by("ls", space)["revisions"] if one["revision"] == 3]
    assert {"level": "space", "copy": 0, "shards_found": 1, "whole": True} in newest_there["levels"], newest_there


def test_a_job_that_ends_before_its_last_checkpoint_is_in_the_space_is_told(near):
    job, space, held = near
    with Run("--margin", "1000s", *job) as running:
        running.until("^ready$")
        running.process.send_signal(signal.SIGTERM)
        running.until("^saved$")
        await_newest(space, 3)
        (rank,) = children(running.process.pid)
        os.kill(rank, signal.SIGKILL)
        held.unlink()
        status, output = running.end()
    assert re.search(
        "no rank had .* open any more before revision 3, complete in memory, was complete there", output
    ), output


@pytest.mark.parametrize("language", ["c", *rarely("cxx", "fortran", "python")])
def test_the_smallest_programs_ask_whether_a_checkpoint_is_due(language, scratch, monkeypatch):
    """A newcomer copies them. One that decided by itself took no request: not at SIGTERM, not before a time limit.

    Nor does a disk that is full for a while end them: they ended with the first checkpoint that failed.
    """
    monkeypatch.setenv("LD_PRELOAD", str(build_c(["inject.c"], "inject.so", "-shared", "-fPIC")))
    monkeypatch.setenv("INJECT", "write:ENOSPC:0:1")
    monkeypatch.setenv("INJECT_SPACE", str(scratch / "space"))
    monkeypatch.setenv("MAINSTAY_MTBF_SECONDS", str(NEVER))  # its first checkpoint is due at once, its next never
    monkeypatch.chdir(scratch)
    status, output = run(1, smallest(language), scratch)
    assert status == 0 and "No space left on device" in output, output
    assert newest("space") == 10, "it saves itself at its own ten steps alone, and once before, which failed"


def smallest(language):
    """The command that runs the smallest example in a language."""
    source = ROOT / "examples" / "minimal" / "minimal"
    if language == "python":
        return [OPENMPI.command("python"), source.with_suffix(".py")]
    if language == "c":
        return [build_c([source.with_suffix(".c")], "minimal")]
    if language == "cxx":
        return [build_cxx(source.with_suffix(".cpp"), "minimal-cxx", "-O2")]
    return [build_fortran(source.with_suffix(".f90"), "minimal-fortran", OPENMPI)]
