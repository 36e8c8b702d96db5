"""The build backend: maturin, after `make stage` has prepared the files that the wheel contains beside the Python
package."""

import subprocess
from pathlib import Path

import maturin
from maturin import get_requires_for_build_wheel  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """This runs before anything is built: the folder to fill must exist, and that is enough."""
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
