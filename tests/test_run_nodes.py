"""`mainstay run` with a list of nodes restarts a failed job on the remaining nodes, and the job ends with the result
of an undisturbed run."""

import re
import subprocess
import sys

import dem
import demo
import pytest
from build import build
from crashes import unless_mpi_crashes
from mpi import MPICH, OPENMPI
from nodes import nodes as made_nodes
from programs import PYTHON, build_c, place
from supervised import Run, run
from ways import rarely

RANKS, STEPS = 4, 60


@pytest.fixture
def nodes():
    with made_nodes() as made:
        yield made


def program_in(language, mpi):
    if language == "c":
        return [build_c(["nodes.c"], "nodes", mpi=mpi)]
    return [mpi.command("python"), PYTHON / "nodes.py"]


class Job:
    """The words of a program on nodes. Each start waits at the steps `stops` until the test releases it."""

    def __init__(self, nodes, mpi, program, scratch):
        self.nodes, self.mpi, self.program, self.scratch = nodes, mpi, program, scratch

    def command(self, *stops, space="space"):
        words = [*self.program, self.scratch / space, STEPS, self.scratch / "gate", *stops]
        return ["--", *self.nodes.mpiexec(self.mpi), "-n", RANKS, *words]

    def let_on(self, step):
        (self.scratch / f"gate.{step}").touch()

    def calm(self):
        """The result of an undisturbed run."""
        status, output = run("--hosts", "c1:2,c2:2", "--restarts", 0, *self.command(space="calm"))
        assert status == 0, output
        return hashes(output)[0]


@pytest.fixture
def jobs(nodes, mpi, scratch):
    """Makes a job of the program in a language."""
    mpi.found()
    yield lambda language: Job(nodes, mpi, program_in(language, mpi), scratch)
    mpi.clear()


def hashes(output):
    return re.findall(r"^hash (\w+)$", output, re.M)


def places(output, start):
    """The node of each rank in a start. A start with a launcher that failed before its ranks ran does not count."""
    starts = re.split(r"^mainstay: start \d+: .*$", output, flags=re.M)[1:]
    ran = [
        found for part in starts if (found := re.findall(r"rank (\d) on (n\d)", part))
    ]  # several may come in one line
    found = dict(ran[start - 1])
    assert sorted(found) == [str(rank) for rank in range(RANKS)], output
    return [found[str(rank)] for rank in range(RANKS)]


def said(output):
    return re.findall(r"^mainstay: (.*)$", output, re.M)


def in_memory(below):
    """The text for a revision that this machine sees in the memory of nodes."""
    return f", if the job's nodes still have it; the space itself has {below}"


@pytest.mark.parametrize(("language", "copies"), [("c", 2), *rarely(("python", 1))])
def test_a_spare_takes_the_place_of_a_lost_node(jobs, language, copies, nodes, monkeypatch):
    """With a memory level the newest revision is restored from the memory of the other node. Without copies it is lost,
    and the shared file system has the one before."""
    job = jobs(language)
    monkeypatch.setenv("MAINSTAY_MEMORY", "auto")
    monkeypatch.setenv("MAINSTAY_PFS_EVERY", "2")
    monkeypatch.setenv("MAINSTAY_MEMORY_COPIES", str(copies))
    calm = job.calm()
    with Run("--hosts", "n1:2,n2:2", "--spares", "n3:2", *job.command(35)) as running:
        running.until("^waiting at step 35$")
        nodes.lose("n2")
        job.let_on(35)
        status, output = running.end()
    assert status == 0, output
    assert hashes(output) == [calm], output
    assert places(output, 1) == ["n1", "n1", "n2", "n2"] and places(output, 2) == ["n1", "n1", "n3", "n3"], output
    assert re.search("^mainstay: n2 does not answer and is left out: no route to n2$", output, re.M), output
    assert "n3 replaces n2" in said(output)
    came, reached = {
        2: ("30", f"going on from revision 3 (lineage 1) of {job.scratch}/space{in_memory('revision 2 (lineage 1)')}"),
        1: (
            "20",
            f"going on from revision 2 (lineage 1) of {job.scratch}/space (revision 3 was complete on a nearer level)",
        ),
    }[copies]
    assert re.findall(r"^from step (\d+)$", output, re.M) == ["0", came], output
    assert reached in said(output), output


@pytest.mark.campaign
def test_the_nodes_that_are_left_take_more_ranks(jobs, mpi, nodes, monkeypatch):
    """Twice in a row they have the newest revision in memory. The third time one of the nodes is back, and only it is
    left, without data in memory: the shared file system has the revision before."""
    monkeypatch.setenv("MAINSTAY_MEMORY", "auto")
    monkeypatch.setenv("MAINSTAY_PFS_EVERY", "2")
    job = jobs("python" if mpi is MPICH else "c")  # each start takes a while
    calm = job.calm()
    with Run("--hosts", "n1:1,n2:2,n3:1", *job.command(15, 35, 55)) as running:
        for step, node in (15, "n2"), (35, "n1"):
            running.until(f"^waiting at step {step}$")
            nodes.lose(node)
            job.let_on(step)
        running.until("^waiting at step 55$")
        nodes.come_back("n2")
        nodes.lose("n3")
        job.let_on(55)
        status, output = running.end()
    assert status == 0, output
    assert hashes(output) == [calm], output
    assert places(output, 1) == ["n1", "n2", "n2", "n3"]
    assert places(output, 2) == ["n1", "n1", "n3", "n3"] and places(output, 3) == ["n3"] * 4, output
    assert places(output, 4) == ["n2"] * 4, output
    assert said(output).count("4 ranks share 2 slots: several to a core") == 2, output
    assert re.findall(r"^from step (\d+)$", output, re.M) == ["0", "10", "30", "40"], output
    space = f"{job.scratch}/space"
    nearer = " (revision 5 was complete on a nearer level)"
    first, second = in_memory("nothing complete"), in_memory("revision 2 (lineage 2)")
    for revision, lineage, more in (1, 1, first), (3, 2, second), (4, 3, nearer):
        assert f"going on from revision {revision} (lineage {lineage}) of {space}{more}" in said(output), output


def test_fewer_ranks_start_where_the_state_is_boxes(nodes, mpi, scratch, monkeypatch):
    """From the memory of the remaining nodes, with the bits of an undisturbed run."""
    mpi.found()
    monkeypatch.setenv("MAINSTAY_MEMORY", "auto")
    monkeypatch.setenv("MAINSTAY_PFS_EVERY", "0")
    example, steps = place(mpi, "jacobi3d-on-fewer"), 400
    build(example, mpi)
    dem.write(scratch / "dem")
    grid = ["--dem", scratch / "dem", "--nx", 40, "--ny", 36, "--nz", 20, "--progress", 1]

    def words(name, *more):
        return [example, *grid, "--steps", steps, "--out", scratch / name, *more]

    job = ["--", *nodes.mpiexec(mpi), "-n", 4]
    status, output = run("--hosts", "c1:2,c2:2", "--restarts", 0, *job, *words("calm", "--no-checkpoint"))
    assert status == 0, output
    saving = words("out", "--space", scratch / "space", "--every", 5)
    with Run("--hosts", "n1:1,n2:2,n3:1", "--ranks-at-least", 1, *job, *saving) as running:
        running.until("^step 20$")
        nodes.lose("n2")
        status, output = running.end()
    assert status == 0, output
    assert "2 ranks start instead of 4, because the nodes that answer have 2 slots" in said(output), output
    restored = [int(match[2]) for line in output.splitlines() if (match := demo.RESTORED.match(line))]
    assert len(restored) == 1 and 5 <= restored[0] < steps, output
    assert (scratch / "out").read_bytes() == (scratch / "calm").read_bytes()
    mpi.clear()


@pytest.mark.parametrize(("remote", "in_memory"), [*rarely((False, False), (True, False)), (True, True)])
def test_success_is_not_believed_of_a_job_that_lost_a_node(nodes, scratch, remote, in_memory, monkeypatch):
    """Open MPI's launcher then ends with 0. If rank 0 runs on another machine, the space shows how the job left it,
    even if all saved data is in the memory of the nodes: that used to count as closed."""
    job = Job(nodes, OPENMPI, program_in("c", OPENMPI), scratch)
    if in_memory:
        monkeypatch.setenv("MAINSTAY_MEMORY", "auto")
        monkeypatch.setenv("MAINSTAY_PFS_EVERY", "0")
    if remote:
        (nodes.folder / "remote").touch()
    space = scratch / "space"

    def lose():
        with Run("--restarts", 0, "--space", space, "--hosts", "n1:2,n2:2", *job.command(15)) as running:
            running.until("^waiting at step 15$")
            nodes.lose("n2")
            return running.end()

    status, output = unless_mpi_crashes(lose)
    assert status == 1, output
    # Open MPI then ends with 0, except if the launcher was itself killed on a busy machine.
    assert re.search("^mainstay: start 1 failed: exit status [0-9]+", output, re.M), output
    # For a revision in memory alone it reports that the nodes must still have it.
    given_up = f"giving up after 0 restarts at revision 1 (lineage 1) of {space}"
    assert any(line.startswith(given_up) for line in said(output)), output
    # A job that did close it has ended in order.
    job.let_on(15)
    status, output = run("--restarts", 0, "--space", space, "--hosts", "n1:2,n3:2", *job.command(15))
    assert status == 0 and "start 1 failed" not in output, output


def test_a_launcher_that_does_not_notice_is_ended(jobs, nodes):
    """The connections to the node stay, but carry no data."""
    job = jobs("c")
    looks = ["--look-every", "200ms", "--reach-limit", "20s"]
    with Run(*looks, "--hosts", "n1:2,n2:2", "--spares", "n3:2", *job.command(15)) as running:
        running.until("^waiting at step 15$")
        nodes.stop("n2")
        running.until("^mainstay: n2 no longer answers .no route to n2.: ending the job$")
        job.let_on(15)
        running.until("^mainstay: (the launcher does not end|start 1 failed)")
        nodes.lose("n2")  # as a node does that is without power
        status, output = running.end()
    assert status == 0, output
    assert places(output, 2) == ["n1", "n1", "n3", "n3"] and len(hashes(output)) == 1, output


# A launcher that prints its arguments, and then runs the next line of the file `do` at each start.
LAUNCHER = """#!/bin/sh
if [ "$1" = --version ]; then
    echo "HYDRA build details:"
    exit
fi
echo "told $*"
line=$(head -n 1 FOLDER/do)
sed -i 1d FOLDER/do
eval "$line"
"""


@pytest.fixture
def launcher(scratch):
    program = scratch / "mpiexec"
    program.write_text(LAUNCHER.replace("FOLDER", str(scratch)))
    program.chmod(0o755)

    def does(*lines):
        (scratch / "do").write_text("".join(f"{line}\n" for line in lines))
        return program

    return does


def told(output):
    return re.findall("^told (.*)$", output, re.M)


def reach(scratch):
    return "--reach", f"test ! -e {scratch}/{{host}}.lost"


def test_the_list_of_hosts_is_read_again(launcher, scratch):
    hosts = scratch / "hosts"
    hosts.write_text("a:2\nb slots=2 # to be replaced\n")
    mpiexec = launcher(f"echo c:2 >> {hosts}; sed -i /^b/d {hosts}; exit 7", "exit 0")
    status, output = run("--hostfile", hosts, *reach(scratch), "--", mpiexec, "program")
    assert status == 0, output
    assert told(output) == ["-hosts a:2,b:2 -n 4 program", "-hosts a:2,c:2 -n 4 program"]
    assert "c replaces b" in said(output)


def test_a_lost_node_is_no_failure_of_the_job(launcher, scratch):
    """No revision is new between two failures, but each has lost a node: therefore the job goes on."""
    mpiexec = launcher(*(f"touch {scratch}/{node}.lost; exit 7" for node in "bc"), "exit 8", "exit 8", "exit 0")
    status, output = run("--hosts", "a:2,b:2,c:2", *reach(scratch), "--restarts", 9, "--", mpiexec, "-n", 4, "program")
    assert status == 76, output
    assert [line.split()[1] for line in told(output)] == ["a:2,b:2", "a:2,c:2", "a:4", "a:4"]
    assert "giving up: the job failed twice (exit status 8)" in output


def test_a_job_that_saves_nothing_is_not_believed_either_where_a_node_is_gone(launcher, scratch):
    mpiexec = launcher(f"touch {scratch}/b.lost", "exit 0")
    status, output = run("--hosts", "a,b", *reach(scratch), "--", mpiexec, "program")
    assert status == 0 and told(output) == ["-hosts a:1,b:1 -n 2 program", "-hosts a:2 -n 2 program"], output
    assert "start 1 failed: exit status 0, but b no longer answers (exit status 1)" in said(output)


def test_a_launcher_that_hangs_is_killed_with_what_it_has_started(launcher, scratch):
    sleeper = f"import os, time; open('{scratch}/pid', 'w').write(str(os.getpid())); time.sleep(250)"
    hang = f"trap '' TERM; setsid {sys.executable} -c \"{sleeper}\" >/dev/null 2>&1 & touch {scratch}/b.lost; wait"
    looks = ["--look-every", "100ms"]
    mpiexec = launcher(hang, "exit 0")
    status, output = run("--hosts", "a,b", *reach(scratch), *looks, "--", mpiexec, "program")
    assert status == 0 and told(output)[1:] == ["-hosts a:2 -n 2 program"], output
    assert "the launcher does not end: killing it, with all processes that it started here" in said(output)
    pid = (scratch / "pid").read_text()
    assert subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout[:1] in ("", "Z")


def test_no_node_that_answers(launcher, scratch):
    for node in "ab":
        (scratch / f"{node}.lost").touch()
    mpiexec = launcher("exit 0")
    status, output = run("--hosts", "a,b", *reach(scratch), "--", mpiexec, "program")
    assert status == 4 and "no node answers" in output and not told(output), output
    # Later it is the end of a job that has run.
    (scratch / "a.lost").unlink()
    mpiexec = launcher(f"touch {scratch}/a.lost; exit 7")
    status, output = run("--hosts", "a,b", *reach(scratch), "--", mpiexec, "program")
    assert status == 7 and "giving up: no node answers" in output, output


def test_a_start_has_as_many_ranks_as_there_are_slots_where_fewer_are_enough(launcher, scratch):
    mpiexec = launcher(*(f"touch {scratch}/{node}.lost; exit 7" for node in "bc"), "exit 0")
    hosts = ["--hosts", "a:2,b:2,c:3", *reach(scratch)]
    status, output = run(*hosts, "--ranks-at-least", 3, "--", mpiexec, "-n", 7, "program")
    assert status == 0, output
    assert told(output) == ["-hosts a:2,b:2,c:3 -n 7 program", "-hosts a:2,c:3 -n 5 program", "-hosts a:3 -n 3 program"]
    assert "5 ranks start instead of 7, because the nodes that answer have 5 slots" in said(output), output
    assert "3 ranks share 2 slots: several to a core" in said(output), output


def test_a_dry_run_starts_nothing(launcher, scratch):
    (scratch / "b.lost").touch()
    status, output = run(
        "--dry-run",
        "--hosts",
        "a:2,b:2",
        "--spares",
        "s:2",
        *reach(scratch),
        "--",
        launcher("exit 9"),
        "-n",
        4,
        "program",
    )
    assert status == 0 and not told(output), output
    assert said(output)[-2:] == ["s replaces b", f"start 1: {scratch}/mpiexec -hosts a:2,s:2 -n 4 program"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--hosts", "a:x", "--", "MPIEXEC", "p"], '--hosts: a has "x" slots'),
        (["--hosts", "a", "--spares", ",", "--", "MPIEXEC", "p"], "--spares: it names no host"),
        (["--hosts", "a", "--", "true"], "the command names no launcher"),
        (["--hosts", "a", "--", "MPIEXEC", "-hosts", "b", "p"], "the command itself places its ranks (-hosts)"),
        (["--hosts", "a", "--ranks", 2, "--", "MPIEXEC", "-n", 3, "p"], "--ranks 2 conflicts with 3 in the command"),
        (
            ["--hosts", "a", "--ranks-at-least", 3, "--", "MPIEXEC", "-n", 2, "p"],
            "--ranks-at-least 3 is more than the 2 ranks of a start",
        ),
        (["--hosts", "a", "--hostfile", "b", "--", "MPIEXEC", "p"], "cannot be used with"),
        (["--hosts", "a", "--reach", "true", "--", "MPIEXEC", "p"], "it lacks {host}"),
        (["--spares", "a", "--", "MPIEXEC", "p"], "give those with --hosts"),
        (["--hostfile", "/nowhere", "--", "MPIEXEC", "-n", 1, "p"], "the host list /nowhere cannot be used"),
    ],
)
def test_what_cannot_be_meant_is_refused(launcher, arguments, words):
    mpiexec = str(launcher("exit 0"))
    status, output = run(*(mpiexec if word == "MPIEXEC" else word for word in arguments))
    assert status == 2 and words in output and not told(output), output


def test_a_batch_system_that_is_not_there_is_told(launcher, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    status, output = run("--nodes-from", "slurm", "--", launcher("exit 0"), "program")
    assert status == 4 and "Slurm does not report the nodes of the job: SLURM_JOB_ID is not set" in output, output
