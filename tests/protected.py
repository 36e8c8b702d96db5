"""Programs under `mainstay files`, each test with a stage and a helper of its own."""

import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import library
from command import MAINSTAY
from limits import LIMIT_S, until
from mpi import SHARED_MEMORY
from programs import BUILT

SOURCES = Path(__file__).resolve().parent / "files"
PRELUDE = """
import os, signal, sys
def put(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)
def get(path):
    with open(path) as file:
        return file.read()
def past(path):
    "The file as programs without mainstay files see it."
    import subprocess
    left_out = {"MAINSTAY_FILES_MATCH": ""}
    return subprocess.run(["cat", path], env=left_out, capture_output=True, text=True).stdout
def killed_all():
    os.kill(0, signal.SIGKILL)
def killed():
    os.kill(os.getpid(), signal.SIGKILL)
"""

HELPER = """
import socket, struct
def helper():
    "The process of the helper."
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(os.environ['MAINSTAY_FILES_STAGE'] + '/socket')
        return struct.unpack('3i', connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
"""


def build(source, name, *flags, compiler=None):
    """A program, or a library, without Mainstay."""
    program = BUILT / "files" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    words = ["cc", "-std=gnu11", *library.WARNINGS, "-Wno-pedantic", SOURCES / source, *flags]
    if compiler:
        words = [compiler, SOURCES / source, *flags]
    library.once(
        program,
        [shutil.which(words[0]), *words[1:]],
        [SOURCES / source],
        lambda made: library.run([*words, "-o", made]),
    )
    return program


class Node:
    """A folder for restart files, and the stage of a node."""

    def __init__(self, folder, stage, **given):
        self.folder, self.stage, self.given = folder, stage, given
        self.variables = {**os.environ, "MAINSTAY_FILES_STAGE": str(stage)}

    def words(self, program, *options, match=("restart*",)):
        """The command line of a program, or a piece of Python, with its files protected."""
        matches = [word for pattern in match for word in ("--match", pattern)]
        return list(map(str, [MAINSTAY, "files", *matches, *options, "--", *python(program)]))

    def files(self, program, *options, code=0, match=("restart*",), **how):
        """Runs a program with its files protected, and returns its result."""
        return self.run(self.words(program, *options, match=match), code=code, **how)

    def run(self, words, *, code=0, variables=(), folder=None, **how):
        done = subprocess.run(
            list(map(str, words)), cwd=folder or self.folder, env=self.variables | dict(variables), text=True,
            capture_output=True, timeout=LIMIT_S, start_new_session=True, **self.given, **how,
        )  # fmt: skip
        assert code is None or done.returncode == code, done
        return done

    def mainstay(self, *words, code=0):
        """Runs another command of Mainstay on this node, and returns its output."""
        return self.run([MAINSTAY, *words], code=code).stdout

    @contextmanager
    def started(self, program, *options, **how):
        """Starts a program beside the test. Its input and its output are pipes."""
        process = subprocess.Popen(
            self.words(program, *options, **how), cwd=self.folder, env=self.variables, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.given,
        )  # fmt: skip
        try:
            yield process
        finally:
            kill_group(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                pipe.close()

    def text(self, name="restart"):
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def torn(self, name="restart"):
        return self.text(f".mainstay/torn/{name}")

    def kept(self, name="restart"):
        """The contents of the kept generations, by number."""
        kept = (self.folder / ".mainstay" / "kept").glob(f"{name}.g*[0-9]")
        return {int(path.suffix[2:]): path.read_text() for path in kept}

    def writing(self):
        return sorted(path.name for path in (self.folder / ".mainstay" / "writing").glob("*"))

    def status(self):
        """The document of `mainstay files verify`: generations, and files without their names."""
        import json

        return json.loads(self.run([MAINSTAY, "files", "verify", ".", "--json"], code=None).stdout)

    def helper(self):
        """The helper's process, or None."""
        connection = self.connected()
        if not connection:
            return None
        with connection:
            return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def connected(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(str(self.stage / "socket"))
            return connection
        except OSError:
            connection.close()
            return None

    def is_done(self):
        """Waits until the helper has no more files to publish. False: it was killed."""
        return self.ask(b"finish\0")

    def ask(self, message):
        """Waits until the helper has answered. False: it was killed."""
        with self.connected() or socket.socket() as connection, suppress(OSError):
            connection.settimeout(LIMIT_S)
            connection.send(message)
            return bool(connection.recv(1 << 14))
        return False

    def kill_helper(self):
        end_of(self.helper())

    @contextmanager
    def faulty_helper(self, fault, within=None):
        """Starts a helper with a fault. It stays until the end, or until it is killed."""
        inject = build("faulty_helper.c", "faulty_helper.so", "-O1", "-shared", "-fPIC", "-ldl")
        with tempfile.TemporaryDirectory() as notes:
            notes = Path(notes)
            (notes / "hold").touch()
            given = {
                "LD_PRELOAD": inject,
                "HELPER_FAULT": fault,
                "HELPER_HOLD": notes / "hold",
                "HELPER_MET": notes / "met",
            }
            given |= {"HELPER_IN": within or self.folder}
            variables = self.variables | {name: str(value) for name, value in given.items()}
            if before := self.helper():
                end_of(before)
            self.stage.mkdir(mode=0o700, exist_ok=True)
            helper = subprocess.Popen([MAINSTAY, "files-helper", self.stage], env=variables, start_new_session=True)
            connections = []
            until(lambda: helper.poll() is not None or (connections.append(self.connected()) or connections[-1]))
            try:
                yield Faulty(helper, notes)
            finally:
                (notes / "hold").unlink(missing_ok=True)
                for connection in filter(None, connections):
                    connection.close()
                helper.wait(LIMIT_S)

    def end(self):
        """Waits until the helper ends by itself, and leaves nothing of the stage."""
        if helper := self.helper():
            wait_for_end(helper)
        left = [path.name for path in self.stage.glob("*/*")] if self.stage.exists() else []
        assert not left, left
        assert not self.stage.exists()


class Faulty:
    def __init__(self, process, notes):
        self.process, self.notes = process, notes

    def meets(self):
        """Waits until a call has met the fault."""
        until((self.notes / "met").exists)

    def has_met(self):
        return (self.notes / "met").exists()

    def go_on(self):
        (self.notes / "hold").unlink()


def python(program):
    return [sys.executable, "-S", "-E", "-c", PRELUDE + program] if isinstance(program, str) else program


def kill_group(process):
    """Kills a program in a session of its own, with all its processes."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(LIMIT_S)


def end_of(pid):
    """Kills a process that is no child, and waits for its end."""
    wait_for_end(pid, signal.SIGKILL)


def wait_for_end(pid, signal_first=0):
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_first)
        assert select.select([pidfd], [], [], LIMIT_S)[0], "it does not end"
    finally:
        os.close(pidfd)


@contextmanager
def node_in(folder, **given):
    """A node with its stage in memory. Its helper must end by itself."""
    stage = Path(tempfile.mktemp(prefix="mainstay-files-test-", dir=SHARED_MEMORY))
    folder.mkdir(exist_ok=True)
    node = Node(folder, stage, **given)
    try:
        yield node
        node.end()
    finally:
        if helper := node.helper():
            end_of(helper)
        subprocess.run(["rm", "-rf", stage], check=True)
