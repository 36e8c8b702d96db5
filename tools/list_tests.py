#!/usr/bin/env python3
"""Updates the tables of tests/README.md: each file of tests, with the first sentence of its text."""

import ast
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "tests" / "README.md"
# Above each table stands which files it has: `<!-- engine/tests/*.rs -->`.
TABLE = re.compile(r"^(<!-- (\S+) -->\n\| file \| behaviour \|\n\|---\|---\|\n)((?:\|.*\n)*)", re.MULTILINE)


def opening(path):
    """The text that a file of tests opens with."""
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(path.read_text())) or ""
    return "\n".join(
        line.removeprefix("//!").strip() for line in path.read_text().splitlines() if line.startswith("//!")
    )


def row(path, folder):
    first = " ".join(opening(path).split("\n\n")[0].split())
    sentence = re.split(r"(?<=\.) (?=[A-Z`])", first)[0]
    assert sentence, f"{path} does not open with a sentence"
    return f"| [{path.relative_to(folder)}]({os.path.relpath(path, PAGE.parent)}) | {sentence} |\n"


def rows(pattern):
    folder = ROOT / pattern.split("*")[0]
    paths = sorted(path for path in ROOT.glob(pattern) if "support" not in path.parts)
    return "".join(row(path, folder if folder.is_dir() else folder.parent) for path in paths)


def renewed(text):
    """The text of the page with the files of today."""
    return TABLE.sub(lambda table: table[1] + rows(table[2]), text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
