"""A browser without a network."""

import json
import shutil
import subprocess

import pytest
from limits import LIMIT_S

# The browser's own requests have no page as their origin; they do not get through.
ITS_OWN = (None, "not an origin")
NO_NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND"


@pytest.fixture
def browser(tmp_path):
    """Shows a page; returns the resulting document, and a picture of it."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no browser: `make check-browser` installs chromium, as root")

    def show(page, *more):
        log = tmp_path / "net.json"
        quiet = ["--disable-background-networking", "--no-first-run", NO_NETWORK, "--enable-logging=stderr"]
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *quiet]
        done = subprocess.run(
            [found, *options, f"--user-data-dir={tmp_path / 'profile'}", f"--log-net-log={log}", *more, page.as_uri()],
            capture_output=True, text=True, timeout=LIMIT_S, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        # The page's own console messages, or refused requests.
        assert "CONSOLE" not in done.stderr, done.stderr
        events = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
        asked = {event["url"] for event in events if "url" in event and event.get("initiator") not in ITS_OWN}
        assert not {url for url in asked if not url.startswith(("file:", "data:"))}, asked
        return done.stdout

    return show
