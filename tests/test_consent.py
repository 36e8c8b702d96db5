"""`mainstay prune` and `rollback` ask before they remove revisions for good: on a terminal, and only there."""

import os
import pty
import subprocess

import mainstay
import pytest
from command import MAINSTAY
from limits import LIMIT_S


def save(space):
    """Revisions 1 to 3."""
    state = bytearray(64)
    with mainstay.open(space, keep=5, start="fresh") as session:
        session.protect("state", state)
        for _ in range(3):
            session.checkpoint()


def there(space):
    listed = subprocess.run([MAINSTAY, "ls", space], capture_output=True, text=True, timeout=LIMIT_S).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if line.split()[0].isdigit()]


def on_a_terminal(answer, *words):
    """The exit status, and all that the terminal shows."""
    ours, its = pty.openpty()
    with subprocess.Popen([MAINSTAY, *map(str, words)], stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        os.write(ours, answer)
        shown = b""
        try:
            while more := os.read(ours, 4096):
                shown += more
        except OSError:  # nobody has it open any more
            pass
        status = process.wait(LIMIT_S)
    os.close(ours)
    return status, shown.decode()


@pytest.mark.parametrize("words", [("prune", "--keep-last", 1), ("rollback", "--revision", 1)])
def test_a_terminal_is_asked_and_a_script_is_not(words, scratch):
    """Both went on at once: a typing error cost the revisions."""
    space = scratch / "space"
    save(space)
    for answer in b"n\n", b"\n", b"\4":
        status, shown = on_a_terminal(answer, *words, space)
        assert status == 4 and "[y/N]" in shown and "nothing was changed" in shown and "goes" in shown, shown
        assert there(space) == [3, 2, 1]
    status, shown = on_a_terminal(b"n\n", *words, "--dry-run", space)
    assert status == 0 and "[y/N]" not in shown and there(space) == [3, 2, 1], shown
    left = [3] if words[0] == "prune" else [1]
    status, shown = on_a_terminal(b"Yes\n", *words, space)
    assert status == 0 and there(space) == left, shown
    # Nothing is left to remove: the command does not ask.
    assert "[y/N]" not in on_a_terminal(b"", *words, space)[1]
    for run in (lambda: on_a_terminal(b"", *words, "--yes", space)[0],
                lambda: subprocess.run([MAINSTAY, *map(str, words), space], stdin=subprocess.DEVNULL,
                                       capture_output=True, timeout=LIMIT_S).returncode):  # fmt: skip
        other = scratch / f"space{len(list(scratch.iterdir()))}"
        space.rename(other)
        save(space)
        assert run() == 0 and there(space) == left
