"""The fault table, tests/faults.toml, in C and in Python: a scenario with the row's name for every possible row.

Each runs c/faults.c or python/faults.py, which makes the requested calls. It checks that the right call returns the
right error, that the program's memory is unchanged, that earlier revisions are restored bit for bit, and that the job
can go on when the fault is gone.
"""

import tempfile
from pathlib import Path

import pytest
from layout import Layout
from programs import build_c, build_faults, build_python

pytest.register_assert_rewrite("faults")

from faults.stage import ROWS, SCENARIOS, Stage, cases, ranks_of  # noqa: E402


@pytest.fixture(scope="session")
def programs():
    """By language: the program that makes calls."""
    c = build_faults()
    return {"c": c, "python": build_python("faults.py", "faults-python")}


@pytest.fixture(scope="session")
def shim():
    return build_c(["inject.c"], "inject.so", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def templates():
    """Spaces to copy from."""
    with tempfile.TemporaryDirectory(prefix="mainstay-test-") as folder:
        yield Path(folder)


def case(language, name, is_in_every_run):
    return pytest.param(language, name, id=f"{language}-{name}", marks=[] if is_in_every_run else pytest.mark.campaign)


@pytest.mark.parametrize(("language", "name"), [case(*one) for one in cases()])
def test_fault(name, language, scratch, programs, shim, templates):
    ranks = ranks_of(ROWS[name], language)
    SCENARIOS[name](Stage(ROWS[name], scratch, programs[language], shim, templates, ranks))


def test_every_row_has_a_scenario_and_every_scenario_a_row():
    assert set(SCENARIOS) == {name for _, name, _ in cases()}


def test_every_row_is_staged_somewhere():
    """Rust stages them in the tests of the engine, and in the tests of objects."""
    in_rust = {name for name, row in ROWS.items() if row["rust"] or row.get("objects")}
    assert not ROWS.keys() - in_rust - {name for _, name, _ in cases()}


def test_the_c_boundary_under_sanitizers(scratch, shim, templates):
    """The sanitizers check addresses, leaks and undefined behaviour, in the program and in Mainstay's use of its
    memory."""
    program = build_c(
        ["faults.c", "faulty.c"], "faults-sanitized", "-Wno-misleading-indentation", "-g",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    )  # fmt: skip
    row = {"name": "sanitizers", "c": 1, "call": "every", "status": "OK", "says": []}
    stage = Stage(row, scratch, program, shim, templates)
    save = ["save:1", "wait", "save:2", "poll", "restore", "holds:2", "close"]
    stage.run("open", "second", "nulls", "odd:shape", "odd:dimensions", "odd:type", "protect:field", *save)
    stage.run("group:incomplete", "group:size", "set:size=8", "open", "set:none=0", "set:stage=77", "open")
    stage.run("set:none=0", "set:stage=2", "open", "change:size", "restore", "change:shape", "restore", "close")
    layout = Layout(stage.space)
    layout.flip(layout.data(0, 2))
    layout.write()
    said = stage.run("open", "restore", "holds:1", "close")
    assert [one.status for one in said if one.call == "restored"] == ["1"]
