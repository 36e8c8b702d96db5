"""The scenarios of the fault table, tests/faults.toml, by the program's action."""

from . import calls, following, objects, opening, python, restoring, saving  # noqa: F401
