"""Formats Rust, Python, C and C++ with rustfmt, ruff and clang-format. `make fmt` runs it.

    tools/format.py [--check]

With --check it changes nothing, and fails if a file would change. `.clang-format-ignore` names files of C and C++ that
stay as they are.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / ".venv" / "bin"
C = ("*.c", "*.h", "*.cpp", "*.hpp")


def main(check):
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *C], cwd=ROOT, capture_output=True
    )
    sources = [name for name in found.stdout.decode().splitlines() if (ROOT / name).exists()]
    commands = (
        ["cargo", "fmt", "--all", *(["--check"] if check else [])],
        [TOOLS / "ruff", "format", "--quiet", *(["--diff"] if check else []), "."],
        [TOOLS / "clang-format", *(["--dry-run", "-Werror"] if check else ["-i"]), *sources],
    )
    return max(subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode for command in commands)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
