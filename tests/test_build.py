"""Cargo compiles the engine once for all parts of the project, whichever part is built, tested, or packed alone.

It was compiled four times in a run of all tests: crates beside it had requested other features of its dependencies.
"""

import json
import re
import subprocess

import pytest
import rust_tests
from limits import LIMIT_S
from mpi import ROOT

ENGINE = ["-p", "mainstay-engine"]
# `make build`, the tests, and each package alone, as maturin builds the Python package.
# The simulation and the fuzz targets take the engine with features of their own, and are compiled by themselves.
APART = ["--exclude", "mainstay-simulate", "--exclude", "mainstay-fuzz"]
SELECTIONS = [[], ["-e", "normal,build,dev"], ["--workspace", *APART]]
SELECTIONS += [["-p", f"mainstay-{name}"] for name in ("capi", "cli", "python")]


def features(*selection):
    """For each selected package, and each package below one: its compile features."""
    command = ["cargo", "tree", "--locked", "--prefix", "none", "--format", "{p} [{f}]"]
    if "-e" not in selection:
        command += ["-e", "normal,build"]
    told = subprocess.run([*command, *selection], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert told.returncode == 0, told.stderr
    found = {}
    for package, asked in re.findall(r"^(\S+ v\S+).*\[(.*)\]", told.stdout, re.MULTILINE):
        found.setdefault(package, set()).add(asked)
    return found


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda words: " ".join(words) or "default")
def test_the_engine_stands_on_the_same(selection):
    alone, beside = features(*ENGINE), features(*selection)
    assert "syn" in {name.split()[0] for name in alone}, "cargo tree shows nothing of the engine"
    other = {name: (asked, beside[name]) for name, asked in alone.items() if not asked <= beside[name]}
    assert not other, f"crates beside the engine request more features; let the engine request them too: {other}"


def engine_of(command, *words):
    """The compiled engine that a command of cargo builds on."""
    words = rust_tests.cargo(command, *words, "--message-format=json")
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert told.returncode == 0, told.stderr
    made = [one for one in map(json.loads, told.stdout.splitlines()) if one["reason"] == "compiler-artifact"]
    return {
        file
        for one in made
        if one["target"]["name"] == "mainstay_engine" and not one["profile"]["test"]
        for file in one["filenames"]
        if "/deps/" in file and file.endswith(".rmeta")
    }


def test_the_tests_stand_on_the_engine_of_the_library():
    """It was compiled twice, as libraries of proc macros had other debug information in the tests."""
    library = engine_of("build")
    assert len(library) == 1 and library == engine_of("test", "--no-run", *rust_tests.NO_DOCTESTS)
