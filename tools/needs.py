"""Checks that the programs and libraries in a wheel need no newer system than its name promises: needs.py WHEEL."""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# The libraries of glibc and of each C compiler. A manylinux wheel contains all others.
SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|util|pthread|gcc_s))\.so\.\d+")


def promised(wheel):
    """The oldest glibc on which the wheel must run: (2, 28); None if the wheel is for the machine that made it."""
    tag = re.search(r"manylinux_(\d+)_(\d+)_", Path(wheel).name)
    return tag and tuple(map(int, tag.groups()))


def needed(file):
    """The libraries to which a program or library is linked, and the newest glibc version among its symbols."""
    command = ["readelf", "--wide", "--dynamic", "--version-info", file]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    versions = [tuple(map(int, version.split("."))) for version in re.findall(r"Name: GLIBC_([\d.]+)", told)]
    return re.findall(r"\(NEEDED\).*\[(.*)\]", told), max(versions, default=(0,))


def excess(wheel):
    """The libraries that the wheel needs and does not contain, but that some machine promised by its name lacks, as
    lines; and the number of files examined."""
    lines, files, glibc = [], 0, promised(wheel)
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        own = {Path(name).name for name in archive.namelist()}
        for name in archive.namelist():
            if archive.read(name)[:4] != b"\x7fELF":
                continue
            files += 1
            libraries, newest = needed(archive.extract(name, folder))
            lines += [
                f"{name} needs {library}"
                for library in libraries
                if library not in own and not SYSTEM.fullmatch(library)
            ]
            if glibc and newest > glibc:
                lines.append(f"{name} needs glibc {'.'.join(map(str, newest))}")
    return lines, files


def main():
    (wheel,) = sys.argv[1:]
    lines, files = excess(wheel)
    if lines or not files or not promised(wheel):
        sys.exit(
            "\n".join([f"{wheel} would not run wherever its name says, with {files} programs and libraries", *lines])
        )
    print(f"{wheel}: {files} programs and libraries, for glibc {'.'.join(map(str, promised(wheel)))} and newer")


if __name__ == "__main__":
    main()
