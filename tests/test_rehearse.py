"""`mainstay rehearse` tells real programs that come back unchanged from programs that do not.

The user's files are unchanged, and no file is left: conftest looks for processes and shared memory.
"""

import re
import subprocess
import sys
import textwrap

import mainstay
import pytest
from command import MAINSTAY
from limits import LIMIT_S
from mpi import OPENMPI, ROOT
from programs import build_c
from ways import rarely

SEED = 7
# Draws a kill in the first hundredth of the run: a job that saves nothing is killed by time, and must not end before.
EARLY = 196

# The state is a field and a step; a log has a line for each step. WRONG leaves out some of the declarations.
PROGRAM = """
import sys, time
import mainstay, numpy as np

field, seen, step = np.zeros(300), np.zeros(1), np.zeros((), int)
with mainstay.open(sys.argv[1], every_steps=int(sys.argv[2])) as session, open("log.txt", "a") as log:
    session.protect("step", step)
    session.protect("field", lambda: field, allocate=lambda shape: None)
    if "wrong" not in sys.argv:
        session.protect_output("log.txt")
    session.restore()
    while step < 60:
        seen += 1  # not protected: where it flows into the state, the state is wrong
        if "wrong" in sys.argv:
            field[200] = seen[0]
        field[:100] += 1 / (1 + step)
        step += 1
        print(step, seen[0] if "wrong" in sys.argv else "", file=log, flush=True)
        time.sleep(0.004)
        if session.due(step):
            session.checkpoint()
"""


def rehearse(scratch, *words):
    command = [MAINSTAY, "rehearse", *map(str, words)]
    done = subprocess.run(
        command, cwd=scratch, capture_output=True, text=True, timeout=LIMIT_S, env=OPENMPI.environment(scratch)
    )
    return done.returncode, done.stdout + done.stderr


def after_kills(outcome, wanted, said):
    """What follows `outcome` and the number of kills in a line of the report. A busy machine kills late: the job may end
    before the last kill, and then a line says so."""
    kills, rest = re.search(rf"{outcome} after (\d) kills?(.*)", said).groups()
    assert 1 <= int(kills) <= wanted, said
    assert int(kills) == wanted or re.search(rf"ended after {kills} kills? of {wanted}: it is too short", said), said
    assert len(re.findall(rf"kill \d of {wanted}: after \d+ checkpoint", said)) == int(kills), said
    return rest


@pytest.fixture
def python(scratch):
    """The words of a job that saves to a space elsewhere, which is not empty."""
    (scratch / "work").mkdir()
    (scratch / "work" / "program.py").write_text(textwrap.dedent(PROGRAM))
    with mainstay.open(scratch / "space") as session:
        session.protect("other", bytearray(8))
        session.checkpoint()
    return ["--", sys.executable, "program.py", scratch / "space"]


def test_a_program_that_comes_back_is_the_same(python, scratch):
    work = scratch / "work"
    (work / "log.txt").write_text("of before\n")
    status, said = rehearse(work, 3, "--seed", SEED, "--compare", "log.txt", *python, 10)
    assert status == 0, said
    same = after_kills("the same", 3, said)
    assert same.startswith(": 2 items of 1 rank in ") and same.endswith(", 1 file") and f"--seed {SEED}" in said, said
    assert re.search(r"kill 1 of 3: after [1-9]\d* checkpoint", said), said
    # The earlier files are unchanged, and there are no others.
    assert sorted(path.name for path in work.iterdir()) == ["log.txt", "program.py"]
    assert (work / "log.txt").read_text() == "of before\n"
    assert [item.name for item in mainstay.read(scratch / "space").shards[0].items] == ["other"]


def test_a_program_that_forgets_is_told_where(python, scratch):
    work = scratch / "work"
    status, said = rehearse(work, 2, "--seed", SEED, "--compare", "log.txt", *python, 10, "wrong")
    assert status == 1, said
    after_kills("different", 2, said)
    # Item, rank, element, and its values in both runs.
    (row,) = re.findall(r"^ *field +0 +200 +(\d+) +(\d+) +1$", said, re.MULTILINE)
    assert row[0] == "60" and int(row[1]) < 60
    assert re.search(r"log.txt differs from line \d+ on", said) and "not protected" in said
    (kept,) = re.findall(r"both runs are kept in (.*)", said)
    assert {"undisturbed", "killed"} == {path.name for path in (work / kept).iterdir()}


def test_a_program_that_never_saves_begins_anew(python, scratch):
    status, said = rehearse(scratch / "work", 1, "--seed", EARLY, *python, 1000)
    assert status == 0 and "saved nothing by itself" in said and "the same after 1 kill: 2 items" in said, said


def test_variables_that_hold_addresses_are_the_same(scratch):
    """Each run has other addresses: every program with protected globals was reported as different."""
    (scratch / "work").mkdir()
    program = build_c(["points.c"], "points")
    status, said = rehearse(scratch / "work", 2, "--seed", SEED, "--", program, "space")
    assert status == 0 and re.match(r": \d+ items of 1 rank in space", after_kills("the same", 2, said)), said
    status, said = rehearse(scratch / "work", 1, "--seed", SEED, "--", program, "space", "wrong")
    (row,) = re.findall(r"^ *(globals/\S+) .*$", said, re.MULTILINE)
    assert status == 1 and row == "globals/total", said


@pytest.mark.parametrize("words, told", [
    ((1, "--compare", "/etc/passwd", "--", "true"), "relative to the working directory"),
    ((1, "--", "false"), "the undisturbed run failed (exit status 1)"),
    ((1, "--", "true"), "nothing to compare"),
    ((1, "true"), "after --"),
    ((0, "--", "true"), "1..=1000"),
])  # fmt: skip
def test_what_cannot_be_rehearsed_is_refused(words, told, scratch):
    status, said = rehearse(scratch, *words)
    assert status == 2 and told in said, said
    assert not list(scratch.glob("mainstay-rehearsal-*"))


@pytest.mark.parametrize("right", [True, *rarely(False)])
def test_jobs_of_mpi(right, scratch):
    """README's program, and the same without the step among the protected regions: the newest revision has it, and the
    field is wrong."""
    source = (ROOT / "examples" / "minimal" / "minimal.c").read_text()
    if not right:
        source, cut = re.subn(r'^.*mainstay_protect\(session, "step".*\n', "", source, flags=re.MULTILINE)
        assert cut == 1
    (scratch / "source").mkdir()
    (scratch / "source" / "minimal.c").write_text(source)
    program = build_c([scratch / "source" / "minimal.c"], "rehearsed" if right else "rehearsed-wrong")
    (scratch / "work").mkdir()
    mpiexec = OPENMPI.mpiexec(2, [program, 400])
    status, said = rehearse(scratch / "work", 2 if right else 1, "--seed", SEED, "--", *mpiexec)
    if right:
        assert status == 0, said
        assert after_kills("the same", 2, said).startswith(": 2 items of 2 ranks in space"), said
    else:
        assert status == 1 and re.search(r"^ *field +1 +0", said, re.MULTILINE), said
