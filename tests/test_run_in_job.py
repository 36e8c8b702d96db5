"""`mainstay run --in-job`: a job goes on by itself when ranks fail, and is restarted if it cannot; the exit status is
the job's, whatever its launcher says of failed ranks."""

import json
import re
import shutil
import stat
import subprocess
import time

import pytest
from command import MAINSTAY, mainstay
from limits import LIMIT_S
from mpi import MPICH, OPENMPI
from programs import build_c
from staged import pool_directory
from supervised import Run, run
from test_run import kill_rank
from ways import rarely

RANKS, STEPS = 4, 60

# Prints its options and settings, then reports as rank 0 of a job, and ends with the given status.
LAUNCHER = """#!/bin/sh
if [ "$1" = --version ]; then echo 'VERSION'; exit; fi
echo "launched: $*"
echo "set: ${MAINSTAY_RECOVERY-none} ${MAINSTAY_SPARES-none}"
tell() { printf '%s\\000' "$1" >> "$MAINSTAY_RUN_REPORT"; }
TELLS
exit STATUS
"""
ULFM = "--with-ft ulfm --mca async_mpi_finalize 1"
FORWARD = "-x MAINSTAY_RECOVERY -x MAINSTAY_SPARES"


@pytest.fixture
def launcher(tmp_path):
    """Makes an mpiexec that prints a version, reports some events and ends with a status."""

    def make(version="mpiexec (Open MPI) 5.0.11", tells="", status=0, name="mpiexec"):
        path = tmp_path / name
        text = LAUNCHER.replace("VERSION", version).replace("STATUS", str(status))
        path.write_text(text.replace("TELLS", "\n".join(f"tell {word!r}" for word in tells)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def launched(output):
    return re.findall(r"^launched: (.*)$", output, re.M), re.findall(r"^set: (.*)$", output, re.M)


def test_the_launcher_gets_what_it_needs(launcher):
    status, output = run("--in-job", "--spares", 1, "--", launcher(), "-n", 4, "--bind-to", "core", "./a", "-n", 5)
    assert status == 0, output
    words = f"-n 5 {ULFM} {FORWARD} --bind-to core ./a -n 5"
    assert launched(output) == ([words], ["replace 1"]), output
    heart = " ".join(
        f"--mca mpi_ft_detector{name} {value}"
        for name, value in [("", "true"), ("_thread", "true"), ("_period", "0.4"), ("_timeout", "2")]
    )
    arguments = ["--in-job", "--recovery", "shrink", "--heartbeat", "2s", "--", launcher(), "-np", 4, "./a"]
    status, output = run(*arguments)
    assert launched(output) == ([f"-n 4 {ULFM} {heart} {FORWARD} ./a"], ["shrink 0"]), output
    # Without it no option is added.
    _, output = run("--", launcher(), "-n", 4, "./a")
    assert launched(output) == (["-n 4 ./a"], ["none none"]), output


def test_only_an_option_goes_before_the_settings(launcher, monkeypatch, tmp_path):
    """The default of --recovery overrode the settings, and the default of no spares did, too."""
    job = ["--", launcher(), "-n", 4, "./a"]
    (tmp_path / "mainstay.toml").write_text('recovery = "shrink"\n')
    _, output = run("--in-job", *job, cwd=tmp_path)
    assert launched(output)[1] == ["shrink 0"], output
    monkeypatch.setenv("MAINSTAY_RECOVERY", "shrink")
    _, output = run("--in-job", *job)
    assert launched(output)[1] == ["shrink 0"], output
    status, output = run("--in-job", "--spares", 1, *job)
    assert (
        status == 2 and 'the setting recovery = "shrink" goes on with fewer ranks and needs no spare ranks' in output
    ), output
    monkeypatch.setenv("MAINSTAY_SPARES", "1")
    _, output = run("--in-job", "--recovery", "replace", *job)
    assert launched(output) == ([f"-n 4 {ULFM} {FORWARD} ./a"], ["replace 1"]), output
    monkeypatch.setenv("MAINSTAY_RECOVERY", "off")
    _, output = run("--in-job", "--spares", 2, *job)
    assert launched(output)[1] == ["replace 2"], output


def test_spares_are_nodes_and_ranks(launcher):
    """On both nodes: two hosts for four ranks and one spare, with a third host in case one is lost."""
    nodes = ["--reach", "true {host}", "--hosts", "n1:2,n2:3", "--spares", "n3:2", "--spares", 1]
    status, output = run("--in-job", *nodes, "--", launcher(), "-n", 4, "./a")
    assert status == 0, output
    assert launched(output) == ([f"--host n1:2,n2:3 -n 5 {ULFM} {FORWARD} ./a"], ["replace 1"]), output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--spares", "1"], "--spares 1 is a number of spare ranks, which needs --in-job"),
        (["--in-job", "--spares", "1", "--spares", "2"], "two numbers"),
        (["--in-job", "--spares", "n3"], "--spares names nodes"),
        (["--in-job", "--recovery", "shrink", "--spares", "1"], "needs no spare ranks"),
        (["--recovery", "shrink"], "--in-job"),
        (["--heartbeat", "1s"], "--in-job"),
        (["--in-job", "--heartbeat", "5ms"], "the least is 100ms"),
        (["--in-job", "--heartbeat", "soon"], "--heartbeat"),
    ],
)
def test_what_makes_no_sense_is_refused(launcher, arguments, why):
    status, output = run(*arguments, "--", launcher(), "-n", 4, "./a")
    assert status == 2 and why in output and "launched" not in output, output


def test_spares_without_a_number_of_ranks_are_refused(launcher):
    status, output = run("--in-job", "--spares", 1, "--", launcher(), "./a")
    assert status == 2 and "no number of ranks (-n)" in output, output


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("HYDRA build details:", "MPICH ends it"),
        ("mpiexec (Open MPI) 4.1.4", "Open MPI 4.1.4 ends it"),
        ("something else", "names neither Open MPI nor MPICH"),
    ],
)
def test_where_the_mpi_cannot_it_says_so_and_starts_again(launcher, version, why):
    command = [launcher(version, status=3), "-n", 4, "./a"]
    status, output = run("--in-job", "--spares", 1, "--restarts", 1, "--", *command)
    assert status == 3, output
    assert re.search(
        f"mainstay: the job cannot go on by itself when ranks fail: .*{why}.*; after a failure it is started again instead",
        output,
    )
    assert launched(output) == (["-n 4 ./a"] * 2, ["none none"] * 2), output


def test_srun_and_what_is_no_launcher_cannot(launcher):
    for words in [launcher(name="srun"), "-n", 4, "./a"], ["sh", "-c", "exit 0"]:
        status, output = run("--in-job", "--", *words)
        assert status == 0 and "cannot go on by itself" in output and "--with-ft" not in output, output


@pytest.mark.parametrize("status", [0, 137, 3])
def test_what_the_job_says_counts(launcher, status, tmp_path):
    """prterun reports the end of any rank, also of one that the job has recovered from."""
    space = tmp_path / "space"
    space.mkdir()
    opened = [f"{space}", f"opened {space}", f"complete 1 7 {space}"]
    recovery = {
        "noticed_unix_ns": 1, "failed": [2], "way": "spare", "ranks_before": 4, "ranks": 4,
        "parts": {"regroup_ns": 5 * 10**7, "open_ns": 3 * 10**7, "copies_ns": 0, "state_ns": 4 * 10**7},
        "total_ns": 12 * 10**7, "back_to": {"lineage": 1, "revision": 7, "saved_unix_ns": None},
        "lineage": 2, "step": None, "lost": [],
    }  # fmt: skip
    recovered = [f"opened {space}", f"recovered {json.dumps(recovery, separators=(',', ':'))} {space}"]
    command = ["--", launcher(tells=[*opened, *recovered, f"closed {space}"], status=status), "-n", 4, "./a"]
    ended, output = run("--in-job", *command)
    assert ended == 0 and output.count("mainstay: start ") == 1, output
    assert (
        output.count("mainstay: rank 2 failed; the job went on from revision 7 after 0.12 s (a spare took its place; ")
        == 1
    ), output
    # Counted by its reports, because there is no journal.
    assert "mainstay: summary: inside Mainstay 120 ms" in output and "(1 recovery 120 ms)" in output, output
    # Recovered once, and then ended with the job.
    command[1] = launcher(tells=[*opened, *recovered], status=status)
    ended, output = run("--in-job", "--restarts", 0, *command)
    assert ended == (status or 1) and "went on from revision 7" in output, output
    # There was no recovery: the status is the program's own.
    command[1] = launcher(tells=[*opened, f"closed {space}"], status=status)
    ended, output = run("--in-job", "--restarts", 0, *command)
    assert ended == status, output


FIRST_OPENED, AGAIN_OPENED, CLOSED = "opened /s", "opened /s", "closed /s"


@pytest.mark.parametrize(
    ("tells", "killed", "status"),
    [
        ([], [0, 1, 2, 3], 1),
        (["/s"], [0], 1),
        ([FIRST_OPENED, CLOSED], [0, 1, 2, 3], 1),
        # Before there was a session: the others have gone on without a report.
        ([FIRST_OPENED, CLOSED], [2], 0),
        # Rank 0 is on another machine, and may have opened a space and recovered.
        ([], [2], 0),
        # The waiting ranks have gone on.
        ([FIRST_OPENED, AGAIN_OPENED, CLOSED], [0, 1, 2, 3], 0),
        ([], [], 0),
    ],
)
def test_ranks_that_were_killed_count_where_the_job_did_not_go_on(launcher, tells, killed, status):
    """Open MPI's launcher then ends with status 0, because it must go on without them; it reports them separately."""
    path = launcher(tells=tells, status=0)
    lines = "".join(
        f"[n:1] [prterun-n-1@0,0] errmgr:dvm: for proc [prterun-n-1@1,{rank}] state ABORTED BY SIGNAL\\n"
        for rank in killed
    )
    words = f"printf '{lines}[n:1] of its own\\n' >> /proc/self/fd/$PMIX_OUTPUT_STDERR_FD\n"
    path.write_text(path.read_text().replace("exit 0\n", f"{words}exit 0\n"))
    ended, output = run("--in-job", "--restarts", 0, "--", path, "-n", 4, "./a")
    assert ended == status and ("killed by a signal" in output) == bool(status), output
    assert "[n:1] of its own" in output and "errmgr" not in output, output
    anew = "/s was opened anew after a failure; no rank is left that knows more"
    assert (anew in output) == (AGAIN_OPENED in tells[1:]), output


def test_a_launcher_that_stays_after_mpi_abort_is_ended(launcher):
    """Open MPI's launcher can then wait for ever, without ranks."""
    path = launcher(tells=["opened /s"])
    line = "[n:1] [prterun-n-1@0,0] errmgr:dvm: for proc [prterun-n-1@1,3] state CALLED ABORT\\n"
    words = f"printf '{line}' >> /proc/self/fd/$PMIX_OUTPUT_STDERR_FD\nsleep {LIMIT_S}\n"
    path.write_text(path.read_text().replace("exit 0\n", f"{words}exit 0\n"))
    ended, output = run("--in-job", "--restarts", 0, "--", path, "-n", 4, "./a")
    assert ended == 137 and "mainstay: the launcher does not end: killing it" in output, output
    assert "could not go on by itself" not in output, output


@pytest.fixture
def job(mpi, tmp_path, monkeypatch):
    """The words of a real job with ranks that kill themselves, each in its own node's memory."""
    for name, value in {"MEMORY": "auto", "EVERY_STEPS": "5", "PFS_EVERY": "4", "MEMORY_COPIES": "2"}.items():
        monkeypatch.setenv(f"MAINSTAY_{name}", value)
    program = build_c(["goes_on.c"], "goes_on", mpi=mpi)
    with pool_directory() as pools:
        # As if each rank had a node of its own.
        node = f"r=${{PMIX_RANK-$PMI_RANK}}; mkdir -p {pools}/$r; MAINSTAY_NODE=$r MAINSTAY_POOL_DIRECTORY={pools}/$r"

        def command(space, *kills, options=()):
            words = f"{node} exec {program} {tmp_path / space} {STEPS} {tmp_path / f'{space}.gate'} {' '.join(kills)}"
            variables = [f"{name}={value}" for name, value in mpi.variables]
            return ["--", "env", *variables, mpi.command("mpiexec"), "-n", RANKS, *options, "sh", "-c", words]

        mpi.found()
        command.pools = pools
        yield command
        mpi.clear()


def hashes(output):
    return re.findall(r"^hash (\w+)$", output, re.M)


HASHES = {}  # of runs that nothing disturbs, by MPI


@pytest.fixture
def calm(mpi, job):
    if mpi not in HASHES:
        status, output = run("--restarts", 0, *job("calm", options=mpi.oversubscribe))
        assert status == 0, output
        (HASHES[mpi],) = hashes(output)
    return HASHES[mpi]


def test_a_spare_takes_the_place_of_a_rank_that_was_killed(mpi, job, calm, tmp_path):
    if mpi is MPICH:
        pytest.skip("MPICH cannot: below")
    status, output = run("--in-job", "--spares", 1, *job("space", "2@33"))
    assert status == 0 and hashes(output) == [calm], output
    assert output.count("mainstay: start ") == 1, output
    went_on = (
        r"^mainstay: rank 2 failed; the job went on from revision (\d+) after [\d.]+ s \(a spare took its place; [^()]*\)"
        r"(?:; lost: revision (\d+) in memory: shard 2 went with the nodes that held them)?$"
    )
    # Rank 0 and `mainstay run` both reported it.
    ((back, lost),) = re.findall(went_on, output, re.M)
    assert output.count("the job went on") == 1, output
    # The checkpoint of step 30 may still be on its way to the other nodes when the rank dies at step 33.
    assert not lost or int(lost) == int(back) + 1, output
    assert output.count(f"mainstay: restored revision {back}, after {int(back) * 5} steps\n") == 1, output
    assert re.search(r"^mainstay: summary: .*\b1 recovery \d", output, re.M), output
    document = mainstay("status", tmp_path / "space")
    (recovery,) = document["recoveries"]
    assert document["recovered"] == 1 and recovery["failed"] == [2] and recovery["way"] == "spare", document
    assert recovery["ranks_before"] == recovery["ranks"] == RANKS
    parts = [recovery[name] for name in ("regroup_ns", "open_ns", "state_ns", "copies_ns")]
    assert all(part > 0 for part in parts) and sum(parts) <= recovery["total_ns"], recovery
    page = subprocess.run(
        [MAINSTAY, "report", tmp_path / "space"], capture_output=True, text=True, timeout=LIMIT_S
    ).stdout
    assert "rank 2 failed; replaced by a spare" in page


def in_space(space):
    """The complete revisions in the space."""
    lying = [(one["revision"], lies) for one in mainstay("ls", space)["revisions"] for lies in one["levels"]]
    return [revision for revision, lies in lying if lies["level"] == "space" and lies["whole"]]


def test_what_is_whole_in_the_space_alone_is_gone_back_to(mpi, job, calm, tmp_path):
    """The job went back to the revision before, which memory had: no rank knew yet that the newer one was complete."""
    if mpi is MPICH:
        pytest.skip("MPICH cannot go on")
    space = tmp_path / "space"
    with Run("--in-job", "--spares", 1, *job("space", "wait@20")) as running:
        running.until("^waiting at step 20$")
        # Rank 0 makes no call meanwhile: its saved data is in its own memory and, soon, in the space.
        while 4 not in in_space(space):
            assert time.monotonic() < running.deadline, running.output
            time.sleep(0.05)
        shutil.rmtree(job.pools / "0")
        kill_rank(running.process.pid, 0, mpi)
        (tmp_path / "space.gate.20").touch()
        status, output = running.end()
    assert status == 0 and hashes(output) == [calm], output
    assert "rank 0 failed; the job went on from revision 4 after" in output and output.count("mainstay: start ") == 1, (
        output
    )


def test_a_rank_that_ends_while_the_job_starts_has_it_started_again(mpi, job, calm, tmp_path):
    """Open MPI leaves the others waiting in MPI_Init."""
    if mpi is MPICH:
        pytest.skip("MPICH ends the job")
    *command, words = job("space")
    dies = f'[ "$PMIX_RANK" = 1 ] && mkdir {tmp_path / "died"} 2>/dev/null && kill -9 $$'
    status, output = run("--in-job", "--spares", 1, "--restarts", 1, *command, f"{dies}; {words}")
    assert status == 0 and hashes(output) == [calm], output
    assert "the others wait for it: ending the job" in output and "mainstay: start 2" in output, output


def test_what_the_job_cannot_recover_from_starts_it_again(mpi, job, calm):
    """With MPICH the first failure; with Open MPI the failure of all ranks at once."""
    status, output = run("--in-job", "--spares", 1, *job("space", "2@33" if mpi is MPICH else "all@33"))
    assert status == 0 and hashes(output) == [calm], output
    assert "mainstay: start 2" in output and "mainstay: start 3" not in output, output
    assert ("cannot go on by itself" in output) == (mpi is MPICH), output


@pytest.mark.parametrize("way", ["SEGV", *rarely("KILL")])
def test_a_job_whose_ranks_all_crash_before_they_open_a_session_is_started_again(mpi, job, calm, tmp_path, way):
    """`mpiexec --with-ft ulfm` reports success for such a job: in the first start, and in one after a failure."""
    if mpi is MPICH:
        pytest.skip("MPICH ends the job")
    *command, words = job("space", "all@33")
    # In the first start, and in the one after step 33: the first rank kills all processes once they exist.
    crash = (
        f"n=0; [ -e {tmp_path}/space.gate.0.33 ] && n=1; here={tmp_path}/crash.$n; mkdir -p $here; "
        + """
        if [ ! -e $here/over ]; then
            echo $$ > $here/written.$PMIX_RANK && mv $here/written.$PMIX_RANK $here/$PMIX_RANK
            while :; do
                [ $PMIX_RANK = 0 ] && [ $(ls $here | grep -c '^[0-9]*$') = PROCESSES ] && touch $here/over && kill -WAY $(cat $here/[1-9]*) $$
                sleep 0.01
            done
        fi
    """.replace("PROCESSES", str(RANKS + 1)).replace("WAY", way)
    )
    status, output = run("--in-job", "--spares", 1, "--restarts", 3, *command, f"{crash} {words}")
    assert status == 0 and hashes(output) == [calm], output
    all_killed = "failed: exit status 0, but ranks 0, 1, 2, 3 and 4 were killed by a signal"
    assert f"start 1 {all_killed}" in output and f"start 3 {all_killed}" in output, output
    assert "mainstay: start 4" in output, output
