"""Starts program.py, with the Python of the other savers."""

from pathlib import Path

from harness import mpi

PYTHON = Path(__file__).resolve().parents[2] / ".venv-peers" / "bin" / "python"
PROGRAM = Path(__file__).resolve().parent / "program.py"
LIMIT_S = 900


def run(ranks, scratch, *words):
    return mpi.Measured(mpi.run(ranks, [PYTHON, PROGRAM, *words], scratch, LIMIT_S))


def restored(folder, mib, name, ranks, saved_by, numbers):
    """The line of a job that restores: which of `numbers` it has found, or an error."""
    shared = "shared" if saved_by > 1 else "whole"
    try:
        return run(ranks, folder.parent, "restore", folder, mib, name, shared, *numbers).printed[-1]
    except SystemExit as ended:
        return {"number": None, "error": [str(ended)]}
