"""Checks that documents and comments are in plain words. `make lint` runs it.

In each file `what`, `who` and `whose` stand at most twice in 1,000 words (a short file may have one of them), and a
sentence has 20 words on average at most. Code, code spans and code blocks do not count.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VAGUE_MAX = 2  # in 1,000 words
SENTENCE_MAX = 20  # words, on average
LONG = 1000  # words of a file from which on the rate counts, and not the number
COMMENTS = {
    ".rs": r"^\s*//[/!]?(.*)",
    ".h": r"^\s*//[/!]?(.*)",
    ".hpp": r"^\s*//[/!]?(.*)",
    ".c": r"^\s*//[/!]?(.*)",
    ".cpp": r"^\s*//[/!]?(.*)",
    ".py": r"^\s*#(.*)",
    ".pyi": r"^\s*#(.*)",
    ".sh": r"^\s*#(.*)",
    ".f90": r"^\s*!(.*)",
}
BLOCKS = {".h", ".hpp", ".c", ".cpp"}


def prose(path):
    """The text of a document, or of the comments in a file of code; None if the file has neither."""
    kind = path.suffix
    if kind not in COMMENTS and kind != ".md":
        return None
    text = path.read_text(errors="replace")
    if kind == ".md":
        return re.sub(r"`[^`]*`", "X", re.sub(r"```.*?```", "\n\n", text, flags=re.S))
    lines = re.findall(COMMENTS[kind], text, re.M)
    if kind in BLOCKS:
        lines += [re.sub(r"^\s*\*+", "", block, flags=re.M) for block in re.findall(r"/\*+(.*?)\*/", text, re.S)]
    if kind in (".py", ".pyi"):
        lines += re.findall(r'"""(.*?)"""', text, re.S)
    return re.sub(r"`[^`]*`", "X", "\n".join(lines))


def flaws(text):
    """What is wrong with a text."""
    words = len(re.findall(r"[A-Za-z][A-Za-z']*", text))
    vague = len(re.findall(r"\b(?:what|who|whose)\b", text, re.I))
    if vague > max(1, VAGUE_MAX * words / LONG):
        yield f"{vague} times what, who or whose in {words} words"
    parts = re.split(r"[.!?:](?:\s|$)|\n\s*\n|\n\s*[-*|]", text)
    lengths = [count for count in (len(re.findall(r"[A-Za-z][A-Za-z']*", part)) for part in parts) if count > 2]
    if lengths and sum(lengths) / len(lengths) > SENTENCE_MAX:
        yield f"{sum(lengths) / len(lengths):.0f} words a sentence"


def main():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = 0
    for name in filter(None, listed.stdout.split("\0")):
        text = prose(ROOT / name) if (ROOT / name).is_file() else None
        for flaw in flaws(text) if text else ():
            print(f"{name}: {flaw}")
            found += 1
    if found:
        print(f"\n{found} times: name the thing by a noun, put the verb early, and shorten sentences.")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
