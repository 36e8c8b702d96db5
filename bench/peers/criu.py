"""CRIU: dumps a whole process from outside, and brings it back."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import disk, killed
from peers.state import State

NAME = "CRIU"
LIMIT_S = 120


def refusal():
    """Why CRIU cannot work here; None if it can."""
    if not shutil.which("criu"):
        return "it is not installed"
    checked = subprocess.run(["criu", "check"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if checked.returncode == 0:
        return None
    errors = [line.partition(": ")[2] for line in checked.stderr.splitlines() if line.startswith("Error")]
    # A child of it that ends is an error, too, and comes first.
    causes = [error for error in errors if not error.startswith("exited")]
    return f"`criu check` of version {version()}: {(causes or errors or ['fails'])[0]}"


def version():
    said = subprocess.run(["criu", "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    return said.split()[1]


class Held:
    """A process that holds the state. SIGUSR1: it writes the next number. SIGUSR2: it finds out which number it has. Its
    answers are in a file, so that it has no pipe to another process."""

    def __init__(self, python, mib, folder):
        self._answer = folder / "answer"
        self._answer.unlink(missing_ok=True)
        with open(folder / "output", "w") as output:
            self._process = subprocess.Popen(
                [python, __file__, str(mib), self._answer],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.last = 0
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + LIMIT_S
        while not self._answer.exists():
            if time.monotonic() > deadline:
                raise SystemExit("the process that CRIU is to dump gives no answer")
            time.sleep(0.01)
        said = self._answer.read_text()
        self._answer.unlink()
        return said

    def rewrite(self):
        self.last += 1
        os.kill(self.pid, signal.SIGUSR1)
        self._wait()

    def number(self):
        """None: not the bytes of one number."""
        os.kill(self.pid, signal.SIGUSR2)
        said = self._wait()
        return int(said) if said != "None" else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Also of one that was brought back, which is no child of ours."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        deadline = time.monotonic() + LIMIT_S
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)


def dump(held, folder):
    words = ["criu", "dump", "-t", str(held.pid), "-D", str(folder), "--leave-running", "-o", "dump.log"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def dump_whole(held, folder):
    with dump(held, folder) as process:
        if process.wait(LIMIT_S) != 0:
            raise SystemExit(f"criu dump failed; its reason is in {folder}/dump.log")


def restore(folder):
    """Whether the process is back."""
    words = ["criu", "restore", "-d", "-D", str(folder), "-o", "restore.log"]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    return done.returncode == 0


def turns(held, folder, rounds):
    """The lines that `program.py turns` prints for other savers. A dump is over when the process goes on."""
    for round_ in range(-1, rounds):
        held.rewrite()
        os.sync()
        t1 = time.perf_counter()
        dump_whole(held, folder)
        done = time.perf_counter() - t1
        unsynced = disk.unsynced(folder)
        looked = time.perf_counter()
        disk.sync(folder)
        durable = done + time.perf_counter() - looked
        yield {"side": NAME, "round": round_, "number": held.last} | {
            name: [value]
            for name, value in {"waits": done, "done": done, "durable": durable, "unsynced": unsynced}.items()
        }
    yield {"side": f"{NAME}: room", "round": 0, "room": [disk.room(folder)]}


def bring_back(held, folder):
    """The line that `program.py restore` prints for other savers."""
    held.end()
    disk.drop(folder)
    start = time.perf_counter()
    if not restore(folder):
        return {"number": None, "error": ["criu restore fails"]}
    return {"seconds": [time.perf_counter() - start], "number": held.number()}


def kill_and_bring_back(python, mib, scratch):
    """Kills CRIU when half of dump 2 is written over dump 1. None: the kill came too late."""
    with tempfile.TemporaryDirectory(prefix="killed-", dir=scratch) as folder, Held(python, mib, scratch) as held:
        folder = Path(folder)
        held.rewrite()
        dump_whole(held, folder)
        held.rewrite()
        progress = killed.Progress(folder)
        with dump(held, folder) as process:
            progress.pid = process.pid
            killed.at_half(process, progress, (mib << 20) // 2)
            late = process.poll() is not None
            process.kill()
        return None if late else bring_back(held, folder)


def hold(mib, answer):
    state, number = State(int(mib)), 0
    wanted = {signal.SIGUSR1, signal.SIGUSR2}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    held = None
    while True:
        whole = Path(answer).with_suffix(".new")
        whole.write_text(str(held))
        whole.rename(answer)
        if signal.sigwait(wanted) == signal.SIGUSR1:
            number += 1
            state.rewrite(number)
        else:
            held = state.number_of(state.parts, [number])


if __name__ == "__main__":
    hold(*sys.argv[1:])
