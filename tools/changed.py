"""The unit tests in Rust of the files that differ from the last commit, or that the last commit changed."""

import subprocess

import rust_tests
from mpi import ROOT

# A change here may concern every package.
EVERYWHERE = ("Cargo.toml", "Cargo.lock", "rustfmt.toml")


def git(*words):
    listed = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def changed_files():
    files = git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    return files or git("diff", "--name-only", "HEAD~1", "HEAD")


def packages():
    """The folder and the name of each package."""
    folders = [file.parent.name for file in ROOT.glob("*/Cargo.toml")]
    return {folder: f"mainstay-{folder}" for folder in folders}


def rooms_by_package(files):
    """The packages of these files, each with the modules at its root that changed; no module stands for all."""
    known, rooms = packages(), {}
    for file in files:
        folder, _, rest = file.partition("/")
        if file in EVERYWHERE:
            return {name: set() for name in known.values()}
        if folder not in known or not rest.startswith(("src/", "Cargo.toml", "build.rs")):
            continue
        room = rest.removeprefix("src/").split("/")[0].removesuffix(".rs")
        rooms.setdefault(known[folder], set()).add(room)
    whole = {"lib", "main", "Cargo.toml", "build"}
    return {name: set() if changed & whole else changed for name, changed in rooms.items()}


def commands():
    """A command for each package with changes."""
    for name, rooms in rooms_by_package(changed_files()).items():
        filters = [f"{room}::" for room in sorted(rooms)]
        targets = ["--bins"] if name == "mainstay-cli" else ["--lib"]
        yield rust_tests.cargo("test", "--package", name, *targets, "--", "--quiet", *filters)
