"""The build backend: maturin, once `make stage` has laid out what the wheel brings beside the Python package."""

import subprocess
from pathlib import Path

import maturin
from maturin import get_requires_for_build_wheel  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Asked for before anything is built: the folder that is to be filled must be there, and no more."""
    in_repository()
    (ROOT / "target" / "wheel").mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    in_repository()
    subprocess.run(["make", "--no-print-directory", "stage"], cwd=ROOT, check=True)
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def in_repository():
    if not (ROOT / "Makefile").exists():
        raise SystemExit(f"{ROOT} is not Mainstay's repository; build the wheel there: make wheel")
