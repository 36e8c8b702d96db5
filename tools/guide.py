#!/usr/bin/env python3
"""Updates the programs in the pages of the guide, from examples/.

A comment above each block of code names its source: `<!-- examples/x/x.c -->`, or, for the lines there between `ANCHOR:
name` and `ANCHOR_END: name`, `<!-- examples/x/x.c: name -->`. So the page can be read wherever Markdown is shown.
"""

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "guide" / "src"
SHOWN = re.compile(r"(<!-- (\S+?)(?:: (\w+))? -->\n```\w+\n)(.*?)^```$", re.MULTILINE | re.DOTALL)


def code(source, name=None):
    """The lines of a file, or the part of it with this name, which begins at the left margin."""
    text = (ROOT / source).read_text()
    if name:
        between = rf"ANCHOR: {name}\b.*?\n(.*?)^[^\n]*ANCHOR_END: {name}\b"
        text = re.search(between, text, re.MULTILINE | re.DOTALL)[1]
    return textwrap.dedent("".join(line for line in text.splitlines(keepends=True) if "ANCHOR" not in line))


def renewed(text):
    """The text of a page with the code of today."""
    return SHOWN.sub(lambda block: f"{block[1]}{code(block[2], block[3])}```", text)


if __name__ == "__main__":
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(renewed(page.read_text()))
