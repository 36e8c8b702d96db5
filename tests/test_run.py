"""`mainstay run`: jobs that fail are started again, for as long as they make progress."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import dem
import pytest
from build import build
from command import MAINSTAY
from limits import LIMIT_S
from mpi import processes
from nodes import state
from supervised import Run, run
from ways import rarely

F_OFD_SETLK = 37
RANKS = 3
RUN_AGAIN, GAVE_UP = 75, 76

# Prints the signals that it gets. Ends at SIGINT or SIGTERM with 5, or after a while by itself with 6.
LISTENER = """
import signal, sys, time
def got(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    if number in (signal.SIGINT, signal.SIGTERM):
        time.sleep(0.3)
        sys.exit(5)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, got)
print("ready", flush=True)
until = time.monotonic() + 250
while time.monotonic() < until:
    time.sleep(0.1)
sys.exit(6)
"""


def shell(script):
    return "--", "sh", "-c", script


def starts(output):
    return re.findall(r"mainstay: start \d+: ", output)


def children(pid):
    return [child for child, parent in processes() if parent == pid]


def kill_rank(supervisor, rank, mpi):
    """SIGKILL to one rank of the mpiexec that `mainstay run` has as its child."""
    (mpiexec,) = children(supervisor)
    ranks = mpi.ranks(mpiexec)
    signal.pidfd_send_signal(ranks[rank], signal.SIGKILL)
    for pidfd in ranks.values():
        os.close(pidfd)


def show(space):
    return json.loads(subprocess.run([MAINSTAY, "show", "--json", space], check=True, capture_output=True).stdout)


@pytest.fixture(scope="module")
def jacobi3d(tmp_path_factory, mpi):
    """A command that runs jacobi3d on some ranks."""
    folder = tmp_path_factory.mktemp("jacobi3d")
    build(folder / "jacobi3d", mpi)
    dem.write(folder / "dem")

    def command(space, steps, *more):
        program = [folder / "jacobi3d", "--dem", folder / "dem", "--nx", 48, "--ny", 48, "--nz", 48]
        variables = (f"{name}={value}" for name, value in mpi.variables)
        return ["env", *variables, *mpi.mpiexec(RANKS, [*program, "--space", space, "--steps", steps, *more])]

    mpi.found()
    yield command
    mpi.clear()


def test_a_job_whose_ranks_are_killed_is_started_again(jacobi3d, mpi, tmp_path):
    # Far more steps than a job does while this process gets no processor.
    steps, killed, restored = 8000, 0, []
    command = jacobi3d(tmp_path / "space", steps, "--every", 50, "--progress", 50)
    with Run("--restarts", 3, "--", *command) as running:
        for line in running.lines():
            if match := re.match(r"restored revision (\d+), continuing at step (\d+)", line):
                restored.append(int(match[2]))
            # Each start saves a revision before its rank dies: after two starts without one, the command gives up.
            due = 400 + (restored[-1] if restored else 0)
            if (
                (match := re.match(r"step (\d+)$", line))
                and int(match[1]) >= due
                and killed < 2
                and killed == len(restored)
            ):
                kill_rank(running.process.pid, killed + 1, mpi)
                killed += 1
        status, output = running.end()
    assert status == 0, output
    assert f"done: {steps} steps" in output
    assert len(restored) == 2 and 300 <= restored[0] < restored[1], output
    # The job then restored the announced revision.
    for number in re.findall(r"mainstay: going on from revision (\d+) \(lineage \d+\) of .*/space", output):
        assert f"restored revision {number}," in output
    assert output.count("mainstay: start ") == 5, output  # three starts, two failures
    assert len(re.findall(r"mainstay: start \d failed: exit status \d+", output)) == 2, output


def test_a_job_that_makes_no_progress_is_given_up(jacobi3d, tmp_path):
    words = " ".join(f"'{word}'" for word in jacobi3d(tmp_path / "space", 20, "--every", 10))
    status, output = run("--restarts", 9, *shell(f"{words} || exit 1; exit 9"))
    assert status == GAVE_UP, output
    assert "going on from revision 2 (lineage 1)" in output
    assert re.search(r"mainstay: giving up: the job failed twice \(exit status 9\).* at revision 2 ", output), output
    assert output.count("mainstay: start 3") == 0, output


# Lives on when its launcher has failed, and then saves one more revision.
LATE = """
import os, sys, time
import mainstay
session = mainstay.open(sys.argv[1])
session.protect("state", bytearray(8))
session.restore()
launcher = os.getppid()
open(sys.argv[2], "w").close()
while os.getppid() == launcher:
    time.sleep(0.01)
session.checkpoint()
session.close()
"""


def test_what_the_last_ranks_save_after_the_launcher_has_failed_is_progress(tmp_path):
    """Only restarted jobs were checked for it."""
    late, opened = tmp_path / "late.py", tmp_path / "opened"
    late.write_text(LATE)
    job = f"'{sys.executable}' '{late}' '{tmp_path}/space' '{opened}' & until [ -e '{opened}' ]; do sleep 0.01; done; rm '{opened}'; exit 9"
    status, output = run("--restarts", 2, *shell(job))
    assert status == 9 and "giving up after 2 restarts" in output, output
    deadline = time.monotonic() + LIMIT_S
    while show(tmp_path / "space")["revision"]["revision"] < 3:  # the last rank of all
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("launches_in_vain", [1, *rarely(2)])
def test_a_launcher_that_fails_after_a_job_that_had_begun_is_tried_once_more(jacobi3d, tmp_path, launches_in_vain):
    """As if a daemon of the last start still exists: the job itself has failed once."""
    words = " ".join(f"'{word}'" for word in jacobi3d(tmp_path / "space", 20, "--every", 10))
    count = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/n"
    launch = f"test $n -eq 0 -o $n -gt {launches_in_vain} || exit 213"
    status, output = run("--restarts", 9, *shell(f"{count}; {launch}; {words} || exit 1; test $n -gt 0 || exit 9"))
    assert output.count("mainstay: start 2 failed: exit status 213") == 1, output
    assert status == (0 if launches_in_vain == 1 else GAVE_UP), output
    assert len(re.findall(r"mainstay: start \d: ", output)) == 3, output


def test_only_the_first_start_is_fresh():
    """A restart without a restore would remove the revisions of the first start."""
    status, output = run("--fresh", *shell('echo "start is <$MAINSTAY_START>"; exit 9'))
    assert status == GAVE_UP and re.findall("start is <(.*)>$", output, re.M) == ["fresh", ""], output


def test_a_job_is_started_again_only_so_often(jacobi3d, tmp_path):
    """Each run saves a new revision and fails nevertheless."""
    count = tmp_path / "count"
    words = " ".join(f"'{word}'" for word in jacobi3d(tmp_path / "space", "STEPS", "--every", 10))
    script = f"echo >> {count}; n=$(wc -l < {count}); " + words.replace("'STEPS'", "$((n * 10))") + " || exit 1; exit 9"
    status, output = run("--restarts", 2, *shell(script))
    assert status == 9, output
    assert "mainstay: giving up after 2 restarts at revision 3 (lineage 3)" in output
    (told,) = re.findall("mainstay: summary: (3 starts and 2 restarts in .*)", output)
    assert re.fullmatch(
        r".* in \S+ \S+; lost \S+ \S+: \S+ \S+ of work after the last revision, \S+ \S+ between starts", told
    )
    assert re.search(
        r"mainstay: summary: revision 3 \(lineage 3\) of .*/space, saved \S+ s ago, is the newest$", output, re.M
    )
    inside = r"mainstay: summary: inside Mainstay \S+ \S+(?:, \S+ % of the time)? \(3 checkpoints \S+ \S+, 2 restores \S+ \S+\)"
    assert re.search(inside, output), output
    assert count.read_text() == "\n" * 3


def test_an_mpi_job_that_is_told_to_end_ends_and_stays_so(jacobi3d, tmp_path):
    with Run("--restarts", 3, "--", *jacobi3d(tmp_path / "space", 10**9, "--every", 50)) as running:
        running.until(r"^step 200$")
        before = starts("\n".join(running.output))  # more than one where the launcher failed on a busy machine
        running.process.send_signal(signal.SIGTERM)
        status, output = running.end()
    assert status == RUN_AGAIN and starts(output) == before, output
    assert "mainstay: the job ended after SIGTERM" in output
    # It was killed, and had no time to journal its checkpoints.
    assert re.search(
        r"mainstay: summary: inside Mainstay \S+ \S+(?:, \S+ % of the time)? \(\d+ checkpoints? \S+ \S+\), in", output
    ), output
    # The interrupted run saved no more: repeated runs would make no progress.
    with Run("--space", tmp_path / "space", *shell("echo ready; exec sleep 250")) as running:
        running.until("^ready$")
        running.process.send_signal(signal.SIGTERM)
        status, output = running.end()
    assert status == 143 and "mainstay: the job ended after SIGTERM" in output, output
    document = show(tmp_path / "space")
    assert (document["in_use"], document["clean"]) == (False, False)
    assert document["revision"]["state"] == "newest"


@pytest.mark.parametrize(
    "script, expected, words",
    [
        ("exit 0", 0, ["start 1"]),
        (
            "exit 7",
            GAVE_UP,
            ["start 1 failed: exit status 7", "no revision is complete: the job begins anew", "start 2", "giving up"],
        ),
        ("kill -KILL $$", GAVE_UP, ["start 1 failed: killed by SIGKILL", "giving up"]),
        ("exit 134", GAVE_UP, ["start 1 failed: exit status 134, SIGABRT"]),
    ],
)
def test_the_exit_status_says_how_the_run_ended(script, expected, words):
    status, output = run(*shell(script))
    assert status == expected, output
    for word in words:
        assert f"mainstay: {word}" in output
    # Without a restart the status is the job's own.
    own = {"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137, "exit 134": 134}[script]
    assert run("--restarts", 0, *shell(script))[0] == own


SAVES_NOTHING = """
import sys
import mainstay
with mainstay.open(sys.argv[1]) as session:
    session.protect("state", bytearray(8))
    for step in range(100):
        if session.due(step) or "save" in sys.argv:
            session.checkpoint()
            break
"""


def test_a_job_that_saved_nothing_is_told_so(tmp_path):
    """No checkpoint was ever due, and no message reported it."""
    job = ("--", sys.executable, "-c", SAVES_NOTHING, tmp_path / "space")
    status, output = run(*job)
    assert status == 0, output
    assert f"mainstay: the job saved nothing: no checkpoint was taken in {tmp_path}/space" in output
    assert output.count("mainstay: no setting says when a checkpoint is due") == 1, output
    status, output = run(*job, "save")
    assert status == 0 and "saved nothing" not in output, output
    status, output = run(*shell("exit 0"))
    assert status == 0 and "mainstay: the job saved nothing: it opened no space" in output, output


ENDS_WITHOUT_A_CLOSE = """
import os, sys
import mainstay
session = mainstay.open(sys.argv[1])
session.protect("state", bytearray(8))
session.restore()
session.checkpoint()
session.wait()
os._exit(0)
"""


def test_a_job_that_never_closed_its_space_has_failed(tmp_path):
    """Whatever its exit status: a launcher also ends with 0 if it lost its ranks."""
    space = tmp_path / "space"
    status, output = run("--restarts", 1, "--", sys.executable, "-c", ENDS_WITHOUT_A_CLOSE, space)
    assert status == 1, output
    for start in 1, 2:
        assert f"mainstay: start {start} failed: exit status 0, but the job never closed {space}" in output
    assert f"mainstay: giving up after 1 restart at revision 2 (lineage 2) of {space}" in output


SAVES_TO_TWO = """
import os, sys
import mainstay
state = bytearray(8)
with mainstay.open(sys.argv[1]) as one, mainstay.open(sys.argv[2]) as other:
    for session in one, other:
        session.protect("state", state)
        session.restore()
    state[0] += 1
    for session in one, other:
        session.checkpoint()
        session.wait()
    if state[0] < 2:
        os._exit(1)
"""


def test_a_space_that_the_command_was_not_given_is_told_of_beside_the_one_that_it_was(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    job = ("--restarts", 1, "--", sys.executable, "-c", SAVES_TO_TWO, one, other)
    status, output = run("--space", os.path.relpath(one), *job)
    assert status == 0, output
    for revision in rf"revision 1 \(lineage 1\) of {one}", rf"revision 1 \(lineage 1\) of {other}":
        assert re.search(f"mainstay: going on from .*{revision}(,|$)", output, re.M), output
    assert len(re.findall(r"^mainstay: summary: revision 2 \(lineage 2\) of ", output, re.M)) == 2, output


SAVES_TO_MEMORY = """
import os, signal, sys
import mainstay
state = bytearray(8)
with mainstay.open(sys.argv[1], memory=sys.argv[2], pfs_every=100) as session:
    session.protect("state", state)
    session.restore()
    print("from", state[0], flush=True)
    for _ in range(2):
        state[0] += 1
        session.checkpoint()
        session.wait()
    if state[0] < 6:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_progress_on_a_nearer_level_is_progress(tmp_path):
    """Until the job has ended, the space itself has no new revision, or none at all."""
    space, memory = tmp_path / "space", tmp_path / "memory"
    memory.mkdir()
    status, output = run("--restarts", 5, "--", sys.executable, "-c", SAVES_TO_MEMORY, space, memory)
    assert status == 0, output
    assert re.findall(r"^from (\d)$", output, re.M) == ["0", "2", "4"], output
    # The command sees the memory of its own node.
    decides = f"of {space}, if the job's nodes still have it; the space itself has nothing complete"
    assert re.search(rf"going on from revision 4 \(lineage \d\) {decides}$", output, re.M), output
    assert show(space)["revision"]["revision"] == 6


@pytest.mark.parametrize(
    "variable, value, says",
    [
        ("MAINSTAY_EVERY_SECOND", "10", "did you mean MAINSTAY_EVERY_SECONDS?"),
        ("MAINSTAY_CAPTURE", "everything", "MAINSTAY_CAPTURE: "),
        ("MAINSTAY_CONFIG", "missing.toml", "missing.toml"),
    ],
)
def test_a_setting_that_no_program_would_take_is_refused_before_the_job_is_started(variable, value, says, monkeypatch):
    monkeypatch.setenv(variable, value)
    status, output = run(*shell("echo started"))
    assert status == 2 and says in output and "started" not in output, output


def test_a_program_that_cannot_be_started_is_not_tried_again(tmp_path):
    status, output = run("--", tmp_path / "missing")
    assert status == 127 and output.count("start 1") == 1 and "cannot be started" in output, output
    (tmp_path / "text").write_text("no program")
    status, output = run("--", tmp_path / "text")
    assert status == 126 and "denied" in output, output


def test_input_and_output_pass_through(tmp_path):
    (tmp_path / "input").write_text("from the user\n")
    with open(tmp_path / "input") as given:
        status, output = run("--", "cat", stdin=given)
    assert status == 0 and "from the user" in output.splitlines(), output


def test_signals_are_passed_on_and_an_end_that_was_asked_for_is_the_end():
    with Run("--", sys.executable, "-c", LISTENER) as running:
        running.until("^ready$")
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
            running.process.send_signal(number)
            running.until(f"^got {number.name}$")
        status, output = running.end()
    assert status == 5, output
    assert "the job ended after SIGTERM (exit status 5); not starting it again" in output
    assert "start 2" not in output


def test_a_job_that_does_not_end_is_ended_by_a_second_signal():
    """Like a launcher that hangs without a live rank: only SIGKILL reaches a stopped process."""
    with Run(*shell("sleep 250 & echo started $!; kill -STOP $$")) as running:
        sleeper = Path("/proc", running.until("^started ([0-9]+)$")[1], "stat")
        (job,) = children(running.process.pid)
        until_stopped(job)
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGTERM)
        status, output = running.end()
    assert status == 137 and "killing it, with all processes that it started here" in output, output
    assert "the job ended after SIGTERM (killed by SIGKILL); not starting it again" in output
    deadline = time.monotonic() + LIMIT_S
    while sleeper.exists() and ") Z " not in sleeper.read_text():
        assert time.monotonic() < deadline, f"{sleeper} is still there"
        time.sleep(0.02)


LISTENS_AND_DIES = """
import os, sys, time
import mainstay
session = mainstay.open(sys.argv[1], every_steps=1000)
session.protect("state", bytearray(8))
session.due(1)
print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
os._exit(0)
"""


def test_a_space_that_all_have_left_is_not_said_to_be_closed(tmp_path):
    """As if all ranks with the open space are gone, and the launcher still exists."""
    space, gate = tmp_path / "space", tmp_path / "gate"
    (tmp_path / "job.py").write_text(LISTENS_AND_DIES)
    with Run(*shell(f"{sys.executable} {tmp_path}/job.py {space} {gate}; exec sleep 250")) as running:
        running.until("^ready$")
        running.process.send_signal(signal.SIGTERM)
        running.until("asking the job for a last checkpoint")
        gate.touch()
        status, output = running.end()
    assert status == 143, output
    assert f"no rank has {space} open any more, and no checkpoint was made" in output and "closed" not in output, output


def until_stopped(pid, is_stopped=True):
    deadline = time.monotonic() + LIMIT_S
    while (state(pid) == "T") != is_stopped:
        assert time.monotonic() < deadline, f"process {pid} is in state {state(pid)}"
        time.sleep(0.02)


def test_stopping_and_going_on_reach_the_job():
    with Run("--", sys.executable, "-c", LISTENER) as running:
        running.until("^ready$")
        # The child's group is orphaned here, and the kernel drops SIGTSTP for it: only SIGCONT is visible.
        (job,) = children(running.process.pid)
        os.kill(job, signal.SIGSTOP)
        until_stopped(job)
        running.process.send_signal(signal.SIGCONT)
        until_stopped(job, False)
        running.process.send_signal(signal.SIGTERM)
        assert running.end()[0] == 5


def test_what_the_terminal_sends_is_not_passed_on():
    """Ctrl-C reaches all processes in the foreground: if it were also passed on, mpiexec would take it for a second
    one.

    This job has left the foreground, so it sees that no signal comes through its supervisor.
    """
    ours, theirs = pty.openpty()
    job = "import os; os.setpgrp()" + LISTENER

    def take_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with Run("--", sys.executable, "-c", job, stdin=theirs, stdout=theirs, preexec_fn=take_terminal) as running:
        os.close(theirs)
        output = b""
        while b"\nready\r\n" not in output:
            output += os.read(ours, 1000)
        os.write(ours, b"\x03")
        while b"^C" not in output:
            output += os.read(ours, 1000)
        time.sleep(0.2)  # if it came, it would come now
        running.process.send_signal(signal.SIGTERM)
        try:
            while part := os.read(ours, 1000):
                output += part
        except OSError:
            pass  # the terminal has no other side any more
        os.close(ours)
        assert running.process.wait(LIMIT_S) == 5
    assert b"got SIGTERM" in output and b"got SIGINT" not in output, output
    assert b"not starting it again" in output


def test_a_hangup_that_is_ignored_stays_ignored():
    with Run("--", "sh", "-c", "echo ready; sleep 0.5; echo alive",
             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as running:  # fmt: skip
        running.until("^ready$")
        running.process.send_signal(signal.SIGHUP)
        status, output = running.end()
    assert status == 0 and "alive" in output, output


def test_the_job_does_not_outlive_its_supervisor():
    with Run("--", sys.executable, "-c", LISTENER) as running:
        running.until("^ready$")
        running.process.kill()
        running.until("^got SIGTERM$")


def test_nothing_is_started_while_a_rank_of_the_failed_job_lives_on(jacobi3d, tmp_path):
    space = tmp_path / "space"
    status, output = run("--", *jacobi3d(space, 10, "--every", 10))
    assert status == 0, output
    with open(space / "lock", "r+b") as lock:
        whole_byte = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(lock, F_OFD_SETLK, whole_byte)
        with Run("--restarts", 5, "--space", space, *shell("exit 3")) as running:
            running.until(f"waiting for the last ranks to leave {space}")
            assert not any("start 2" in line for line in running.output)
            lock.close()
            running.until("^mainstay: start 2")
            assert running.end()[0] == GAVE_UP
        assert "going on from revision 1 (lineage 1)" in "\n".join(running.output)


def test_the_wait_for_the_last_ranks_can_be_ended(jacobi3d, tmp_path):
    space = tmp_path / "space"
    assert run("--", *jacobi3d(space, 10, "--every", 10))[0] == 0
    with open(space / "lock", "r+b") as lock:
        fcntl.fcntl(lock, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        with Run("--space", space, *shell("exit 3")) as running:
            running.until("waiting for the last ranks")
            running.process.send_signal(signal.SIGTERM)
            status, output = running.end()
    assert status == 143 and "start 2" not in output, output
