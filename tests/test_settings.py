"""A C program's settings: its own, those of the environment, and those of mainstay.toml, in this order."""

import json
import os
import subprocess

import pytest
from limits import LIMIT_S
from mpi import BUILT
from programs import build_faults

MAINSTAY = BUILT / "mainstay"
MIB = 1 << 20


@pytest.fixture(scope="module")
def program():
    return build_faults()


@pytest.fixture
def job(program, scratch):
    """Makes the program save one revision, with these variables and settings of its own; returns the created files."""

    def run(*own, **variables):
        space = scratch / "space"
        done = subprocess.run(
            [program, "--solo", space, *own, "open", "restore", "save:1", "wait", "close"],
            cwd=scratch,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
        )
        said = [line.split()[2:4] for line in done.stdout.splitlines() if line.startswith("= ")]
        statuses = [status for call, status in said if call != "restored"]
        assert done.returncode == 0 and set(statuses) == {"OK"}, done.stdout
        shown = json.loads(subprocess.check_output([MAINSTAY, "show", space, "--json"], timeout=LIMIT_S))
        return shown["layouts"][0]["portions"][0]["bytes"], shown["revision"]["shard_list"][0]["phases"]["chunks"]

    return run


@pytest.mark.parametrize(
    ("file", "variable", "own", "expected"),
    [
        (None, None, None, None),
        ("8 MiB", None, None, 8),
        (None, "12 MiB", None, 12),
        ("8 MiB", "12 MiB", None, 12),
        ("8 MiB", "", None, 8),
        ("8 MiB", "12 MiB", 16, 16),
        (None, None, 16, 16),
    ],
)
def test_the_program_goes_before_the_environment_and_that_before_the_file(job, scratch, file, variable, own, expected):
    if file is not None:
        (scratch / "mainstay.toml").write_text(f'portion_bytes = "{file}"\n')
    variables = {} if variable is None else {"MAINSTAY_PORTION_BYTES": variable}
    portion, _ = job(*([] if own is None else [f"set:portion_bytes={own * MIB}"]), **variables)
    assert portion == expected * MIB if expected else portion not in (8 * MIB, 12 * MIB, 16 * MIB)


def test_a_program_can_ask_for_what_is_the_default(job, scratch):
    (scratch / "mainstay.toml").write_text('stage = "direct"\n')
    _, chunks = job()
    assert chunks == 0, "the file's stage was not taken"
    _, chunks = job("set:stage=1")
    assert chunks > 0, "the program's stage was not taken"


@pytest.mark.parametrize("stage", [3, 4])
def test_a_program_can_ask_for_a_buffer_of_the_node_or_of_the_rank(job, stage):
    portion, _ = job(
        f"set:stage={stage}",
        "set:small_bytes=1",
        "set:threshold_bytes=4096",
        "set:buffer_bytes=8192",
        "set:flush_seconds=0.5",
    )
    assert portion > 0


def test_a_file_elsewhere_is_named_by_the_environment(job, scratch):
    (scratch / "mainstay.toml").write_text("no toml")
    named = scratch / "named.toml"
    named.write_text("portion_bytes = 8388608\n")
    portion, _ = job(MAINSTAY_CONFIG=str(named))
    assert portion == 8 * MIB


@pytest.mark.parametrize("rule", [{}, {"MAINSTAY_EVERY_STEPS": "10"}])
def test_what_cannot_be_refused_is_told_once(program, scratch, rule):
    words = [program, "--solo", scratch / "space", *["open", "due:1", "due:2", "close"] * 2]
    environment = {**os.environ, "MAINSTAY_ROOT": "/opt/mainstay", **rule}
    done = subprocess.run(words, cwd=scratch, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    told = [line for line in done.stderr.splitlines() if line.startswith("mainstay: ")]
    passed_over, *others = told
    assert passed_over.startswith("mainstay: MAINSTAY_ROOT is no setting and is ignored"), told
    # The missing rule is reported once. Each of the two sessions reports that it saved nothing by its rule.
    says, times = ("no checkpoint was saved: the program asked 2 times", 2) if rule else ("no setting says when", 1)
    assert len(others) == times and all(says in line for line in others), told


def test_the_command_shows_what_the_program_is_given(job, scratch):
    (scratch / "mainstay.toml").write_text('portion_bytes = "8 MiB"\n')
    environment = {**os.environ, "MAINSTAY_STAGE": "direct"}
    told = subprocess.check_output([MAINSTAY, "config", "--json"], cwd=scratch, env=environment, timeout=LIMIT_S)
    settings = {setting["key"]: setting for setting in json.loads(told)["settings"]}
    assert (settings["portion_bytes"]["value"], settings["stage"]["value"]) == (8 * MIB, "direct")
    assert job(MAINSTAY_STAGE="direct") == (8 * MIB, 0)
