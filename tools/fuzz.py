#!/usr/bin/env python3
"""Looks for inputs that harm a reader of foreign bytes, led by the code that they reach (libFuzzer).

`make fuzz` runs all targets for half an hour together; `make fuzz NAME=manifest SECONDS=600` runs one target for ten minutes. An
input that harms a reader stays in `target/guided/found`. docs/decisions/0045-fuzzing.md has the rest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "target" / "guided"
CORPORA = ROOT / "fuzz" / "corpora"
# Instruments the code for libFuzzer. Needs no other compiler than the usual one.
FLAGS = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
]
INPUT_BYTES_MAX = 64 << 10


def host():
    """The machine that the compiler compiles for. Naming it keeps the flags away from build scripts."""
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return next(line.split()[1] for line in told.splitlines() if line.startswith("host:"))


def build():
    machine = host()
    command = ["cargo", "build", "--release", "--locked", "--package=mainstay-fuzz", "--features=guided"]
    command += ["--bin=mainstay-fuzz-guided", f"--target={machine}", f"--target-dir={FOLDER}"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"RUSTFLAGS": " ".join(FLAGS)}, check=True)
    return FOLDER / machine / "release" / "mainstay-fuzz-guided"


def targets():
    """Each has a folder of kept inputs."""
    return sorted(folder.name for folder in CORPORA.iterdir() if folder.is_dir())


def run(program, target, seconds):
    """Whether all inputs were harmless. New inputs that reach more code stay for the next run."""
    grown, found = FOLDER / "grown" / target, FOLDER / "found"
    for folder in (grown, found):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        environment = os.environ | {"MAINSTAY_FUZZ_TARGET": target, "TMPDIR": scratch}
        options = [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", f"-artifact_prefix={found}/{target}-"]
        options += ["-timeout=60", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=0"]
        command = [program, *options, grown, CORPORA / target]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
    if ran.returncode != 0:
        print(f"{target}: {ran.stderr[-3000:]}", flush=True)
    units = [line.split()[-1] for line in ran.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
    print(f"{target}: {' '.join(units) or 'no'} inputs, {'none' if ran.returncode == 0 else 'one'} harmful", flush=True)
    return ran.returncode == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="in place of all targets")
    parser.add_argument("--seconds", type=int, default=1800, help="for all targets together")
    parser.add_argument("--anew", action="store_true", help="forget the inputs of earlier runs")
    chosen = parser.parse_args()
    if chosen.anew:
        shutil.rmtree(FOLDER / "grown", ignore_errors=True)
    built = build()
    meant = chosen.targets or targets()
    harmless = [run(built, target, max(1, chosen.seconds // len(meant))) for target in meant]
    sys.exit(0 if all(harmless) else 1)
