"""The scenarios of the fault table, tests/faults.toml, by what the program is doing."""

from . import calls, following, objects, opening, python, restoring, saving  # noqa: F401
