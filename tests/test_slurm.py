"""`mainstay run` in a batch script of a real Slurm: the job goes on when a node of its allocation fails, or its time is up;
and `srun` with `mainstay files`."""

import os
import re
import time

import pytest
from command import MAINSTAY
from jobs import run
from mpi import MPICH
from programs import build_c
from slurm import Slurm, missing
from staged import pool_directory
from test_guide import blocks
from test_run_nodes import RANKS, STEPS, hashes, places, said

pytestmark = pytest.mark.campaign  # it takes a Slurm

LIMIT_S = 120

# The program in the guide's script. All nodes are on this machine, and this MPI needs to know Slurm's protocol.
OCEAN = """#!/bin/sh
export MPIR_CVAR_PMI_VERSION=1 HWLOC_XMLFILE=/dev/null
export MAINSTAY_NODE=$SLURMD_NODENAME MAINSTAY_POOL_DIRECTORY={pools}/$SLURMD_NODENAME
mkdir -p $MAINSTAY_POOL_DIRECTORY
exec {program} {scratch}/space {steps} {scratch}/gate 25 45
"""


@pytest.fixture(scope="module")
def slurm():
    if why := missing():
        pytest.skip(f"no Slurm here: {why}")
    with Slurm(["n1", "n2", "n3"], cores=2) as made:
        yield made


def until(told, pattern):
    """The value of `told`, once a line of it matches."""
    deadline = time.monotonic() + LIMIT_S
    while not re.search(pattern, output := told(), re.M):
        assert time.monotonic() < deadline, output
        time.sleep(0.05)
    return output


def printed(path):
    return path.read_text(errors="replace") if path.exists() else ""


def test_a_job_goes_on_when_a_node_of_its_allocation_fails(slurm, scratch):
    """First the third node takes the place of the second, then the first has all ranks."""
    (script,) = (block for block in blocks("nodes.md", "bash") if "SBATCH" in block)
    assert "--ranks 128 " in script
    (scratch / "script").write_text(script.replace("--ranks 128 ", f"--ranks {RANKS} ") + 'echo "ended with $?"\n')
    program, output = build_c(["nodes.c"], "nodes", mpi=MPICH), scratch / "output"
    size = ["--nodes=3", "--ntasks-per-node=2"]
    more = [f"PATH={MAINSTAY.parent}:{os.environ['PATH']}", "SLURM_MPI_TYPE=pmi2"]
    MPICH.found()
    with pool_directory() as pools:
        ocean = scratch / "ocean"
        ocean.write_text(OCEAN.format(program=program, steps=STEPS, scratch=scratch, pools=pools))
        ocean.chmod(0o755)
        slurm.call("env", *more, "sbatch", *size, f"--output={output}", f"--chdir={scratch}", scratch / "script")
        for step, node in (25, "n2"), (45, "n3"):
            until(lambda: printed(output), f"^waiting at step {step}$")
            slurm.lose(node)
            (scratch / f"gate.{step}").touch()
        told = until(lambda: printed(output), "^ended with")
        status, calm = run(RANKS, [program, scratch / "calm", STEPS, "-"], scratch, mpi=MPICH)
    assert told.endswith("ended with 0\n"), told
    assert places(told, 1) == ["n1", "n1", "n2", "n2"] and places(told, 2) == ["n1", "n1", "n3", "n3"], told
    assert places(told, 3) == ["n1"] * 4, told
    assert "4 ranks share 2 slots: several to a core" in said(told)
    assert "start 3: srun --nodes=1 --nodelist=n1 --ntasks=4 --overlap --overcommit ./ocean input.toml" in said(told)
    assert re.findall(r"^from step (\d+)$", told, re.M) == ["0", "20", "40"], told
    assert status == 0 and hashes(told) == hashes(calm), calm


def test_a_job_that_is_cut_off_is_queued_again_and_goes_on(slurm, scratch):
    """Slurm sends the script SIGTERM, as before the end of a job's time. The requeued job ends like an undisturbed
    one."""
    (script,) = (block for block in blocks("when.md", "bash") if "SBATCH" in block)
    assert "mpiexec ./ocean" in script
    script = script.replace("mpiexec ./ocean", " ".join(map(str, MPICH.mpiexec(RANKS, ["./ocean"]))))
    (scratch / "script").write_text(script.replace("exit $status", 'echo "ended with $status"\nexit $status'))
    program, output = build_c(["nodes.c"], "nodes", mpi=MPICH), scratch / "output"
    more = [f"PATH={MAINSTAY.parent}:{os.environ['PATH']}", "HYDRA_LAUNCHER=fork"]
    MPICH.found()
    with pool_directory() as pools:
        ocean = scratch / "ocean"
        ocean.write_text(OCEAN.format(program=program, steps=STEPS, scratch=scratch, pools=pools))
        ocean.chmod(0o755)
        size = ["--nodes=1", "--ntasks-per-node=2"]
        told = slurm.call("env", *more, "sbatch", *size, f"--output={output}", f"--chdir={scratch}", scratch / "script")
        (number,) = re.findall(r"Submitted batch job (\d+)", told)
        until(lambda: printed(output), "^waiting at step 25$")
        slurm.call("scancel", "--batch", "--signal=TERM", number)
        until(lambda: printed(output), "^ended with 75$")
        for step in 25, 45:
            (scratch / f"gate.{step}").touch()
        # Slurm begins a requeued job only after a while; an administrator, or this test, can begin it at once. A
        # request while Slurm still ends the job is forgotten.
        until(lambda: slurm.call("squeue", "--noheader", f"--jobs={number}", "--format=%T"), "^PENDING$")
        slurm.call("scontrol", "update", f"jobid={number}", "starttime=now")
        told = until(lambda: printed(output), "^ended with 0$")
        status, calm = run(RANKS, [program, scratch / "calm", STEPS, "-"], scratch, mpi=MPICH)
    assert re.findall(r"^from step (\d+)$", told, re.M) == ["0", "20"], told
    assert status == 0 and hashes(told)[-1:] == hashes(calm), calm


# Each node has its own memory.
FILES = """#!/bin/sh
export MAINSTAY_FILES_STAGE={pools}/$SLURMD_NODENAME/stage
mkdir -p {pools}/$SLURMD_NODENAME
exec {mainstay} files --match 'restart.*' --set '{{}}.*' -- sh -c "exec 3> restart.$SLURM_PROCID; echo $1 >&3; $2"
"""


def test_srun_starts_programs_with_their_files_protected(slurm, scratch):
    """Each of two nodes has a rank with a file of a set. Slurm tells `mainstay files` the number of ranks and of nodes."""

    def job(text, then):
        """The codes of its ranks, and the files."""
        words = [
            "srun",
            "--nodes=2",
            "--ntasks=2",
            f"--chdir={scratch}",
            "sh",
            "-c",
            './script "$@"; echo ended with $?',
        ]
        told = slurm.call(*words, "sh", text, then)
        files = [path.read_text() for path in sorted(scratch.glob("restart.*"))]
        return sorted(map(int, re.findall(r"^ended with (\d+)$", told, re.M))), files

    with pool_directory() as pools:
        (scratch / "script").write_text(FILES.format(mainstay=MAINSTAY, pools=pools))
        (scratch / "script").chmod(0o755)
        assert job("old", "") == ([0, 0], ["old\n"] * 2)
        codes, files = job("half", '[ "$SLURM_PROCID" = 0 ] || kill -KILL $$')
        assert codes[-1] == 137 and files == ["old\n"] * 2, codes
        assert job("new", "") == ([0, 0], ["new\n"] * 2)
        until(lambda: " ".join(path.name for path in pools.glob("*/stage")), "^$")
