"""What all tests share: where they work."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def scratch():
    """A folder for one test, which other users may pass through."""
    with tempfile.TemporaryDirectory(prefix="mainstay-test-") as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path
