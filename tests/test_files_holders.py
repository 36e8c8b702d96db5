"""Processes that share a protected file: children, mappings, processes that the program leaves behind, locks."""

import os
import signal
from contextlib import contextmanager

import pytest
from limits import LIMIT_S, until
from protected import build, node_in

OPEN = "file = os.open('restart', os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.write(file, b'half')\n"


@pytest.fixture
def node(scratch):
    with node_in(scratch / "run") as node:
        yield node


def steps(*steps):
    """A program in C that runs the steps in its arguments."""
    return [build("kernel.c", "steps", "-O1"), *steps]


POOL = """
from multiprocessing import get_context
file = open('restart', 'w')
with get_context('fork').Pool(2) as pool:
    file.write(str(pool.map(abs, [-1, -2])))
    for _ in range(2): pool.apply_async(signal.pause)
file.close()
"""
CHILDREN = {
    "system": (steps("stream:restart", "print:a", "system:false", "print:b", "shut"), "ab"),
    "pool": (POOL, "[1, 2]"),
    "shell": (["sh", "-c", "{ /bin/false; echo x; } > restart"], "x\n"),
    "fork": (OPEN + "os.fork() or sys.exit(3)\nos.wait(); os.close(file)", "half"),
    "exit": (OPEN + "os.fork() or os._exit(3)\nos.wait(); os.close(file)", "half"),
    "last": (OPEN + "if os.fork(): os.close(file); os.wait()\nelse: os.write(file, b' of it'); sys.exit(3)", "half of it"),
}  # fmt: skip


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_that_has_inherited_the_file_may_fail(node, child):
    """`system("false")`, a pool of Python's that ends its workers by a signal, a line of a script."""
    program, text = CHILDREN[child]
    node.files("put('restart', 'old')")
    done = node.files(program)
    assert (node.text(), node.torn(), done.stderr) == (text, None, "")


KILLED = {
    "a script goes on": ["sh", "-c", "{ sh -c 'echo half; kill -9 $$'; echo more; } > restart"],
    "the program ends another program": """
import subprocess
file = open('restart', 'w')
other = subprocess.Popen(['sh', '-c', 'echo half; echo up >&2; read x'], stdin=-1, stdout=file, stderr=-1)
other.stderr.readline()
other.terminate(); other.wait(); file.close()
""",
    "the program has closed it": OPEN
    + """
ready, told = os.pipe()
child = os.fork()
if not child: os.write(told, b'x'); signal.pause()
os.read(ready, 1); os.close(file); os.kill(child, signal.SIGTERM); os.wait()
""",
}


@pytest.mark.parametrize("how", KILLED)
def test_a_child_that_is_killed_may_have_been_writing(node, how):
    node.files("put('restart', 'old')")
    done = node.files(KILLED[how], code=75)
    assert node.text() == "old" and "was killed with it open" in done.stderr


RECEIVER = """
import os, signal, socket, sys
connection = socket.socket(fileno=int(sys.argv[1]))
_, (file,), _, _ = socket.recv_fds(connection, 1, 1)
os.write(file, b' of it'); connection.send(b'x')
connection.recv(1) or os.kill(os.getpid(), signal.SIGKILL)
"""
UNTOLD = {
    "the name of a descriptor": "copy = os.open(f'/dev/fd/{file}', os.O_WRONLY | os.O_APPEND); os.close(file); os.write(copy, b' of it')",
    "a copy past the library": "copy = ctypes.CDLL(None).syscall(32, file); os.close(file); os.write(copy, b' of it')",
    "a socket": f"""
here, there = socket.socketpair()
other = subprocess.Popen([sys.executable, '-S', '-E', '-c', {RECEIVER!r}, str(there.fileno())], pass_fds=[there.fileno()])
there.close(); socket.send_fds(here, [b'x'], [file]); here.recv(1); os.close(file)
for _ in range(3): os.path.exists('restart')
here.close(); other.wait()
""",
}


@pytest.mark.parametrize("how", UNTOLD)
def test_a_process_that_has_told_nothing_may_have_been_writing(node, how):
    """Before, half a file got the name once its last known process had closed it."""
    node.files("put('restart', 'old')")
    done = node.files("import ctypes, socket, subprocess\n" + OPEN + UNTOLD[how] + "\nkilled()", code=137)
    assert node.text() == "old" and node.torn() == "half of it", done


OLD = ("open:restart:w", "put:old", "close")
MAP = ("open:restart:b", "map:8", "close", "store:half")
MAPPED = {
    "killed": ((*MAP, "kill"), 137, "old"),
    "failed": ((*MAP, "exit:3"), 3, "old"),
    "ended": ((*MAP, "store:half", "exit:0"), 0, "halfhalf"),
    "unmapped": ((*MAP, "store:half", "unmap", "kill"), 137, "halfhalf"),
    "unmapped and failed": ((*MAP, "store:half", "unmap", "exit:3"), 3, "halfhalf"),
    "forked": ((*MAP, "fork", "kill", "end", "join", "store:half", "unmap"), 75, "old"),
    "fork failed": ((*MAP, "fork", "exit:3", "end", "join", "store:half", "unmap"), 0, "halfhalf"),
    "fork unmapped": ((*MAP, "fork", "store:half", "unmap", "kill", "end", "join", "unmap"), 0, "halfhalf"),
    "open elsewhere": ((*MAP, "open:restart:u", "kill"), 137, "old"),
}


@pytest.mark.parametrize("how", MAPPED)
def test_a_mapping_counts_as_an_open_file(node, how):
    """The program closes the descriptor first."""
    program, code, text = MAPPED[how]
    node.files("put('restart', 'old')")
    done = node.files(steps(*program), code=code)
    assert node.text() == text, done
    assert (node.torn() is None) == (text != "old")


SILENT = {
    "killed": MAPPED["killed"],
    "failed": MAPPED["failed"],
    "ended": MAPPED["ended"],
    # At each call with a name the helper looks at the holders.
    "unmapped": ((*MAP, "store:half", "unmap", "stat:restart", "kill"), 137, "halfhalf"),
    "forked": MAPPED["forked"],
    "fork failed": MAPPED["fork failed"],
    "child failed": (("open:restart:w", "put:new", "fork", "exit:3", "end", "join", "close"), 0, "new"),
}


@pytest.mark.parametrize("how", SILENT)
def test_children_and_mappings_count_if_the_kernel_catches_the_program(node, how):
    program, code, text = SILENT[how]
    node.files([build("kernel.c", "static-steps", "-O1", "-static"), *OLD], "--catch", "kernel")
    done = node.files([build("kernel.c", "static-steps", "-O1", "-static"), *program], "--catch", "kernel", code=code)
    assert node.text() == text, done
    assert (node.torn() is None) == (text != "old")


@pytest.mark.parametrize("end, text", [("unmap", "halfhalf"), ("kill", "old")])
def test_a_new_helper_finds_mappings(node, end, text):
    node.files("put('restart', 'old')")
    with node.started(steps(*MAP, "store:half", "say:mapped", "await:go", end, "say:ended", "await:on")) as program:
        assert program.stdout.readline() == "mapped\n"
        node.kill_helper()
        (node.folder / "go").touch()
        if end == "unmap":
            assert program.stdout.readline() == "ended\n"
            until(lambda: node.text() == text)
        (node.folder / "on").touch()
        program.communicate(timeout=LIMIT_S)
    assert node.text() == text and (node.torn() is None) == (text != "old")


def test_a_mapping_of_python_is_gone_once_it_is_closed(node):
    """Python closes its descriptor before it unmaps."""
    node.files("put('restart', 'middle')")
    node.files(
        "import mmap\nwith open('restart', 'r+b') as file: memory = mmap.mmap(file.fileno(), 0)\n"
        "memory[:3] = b'NEW'; memory.close(); killed()",
        code=137,
    )
    assert node.text() == "NEWdle"


LEFT_BEHIND = (
    OPEN
    + """
import time
def wait_for(name):
    for _ in range(6000):
        if os.path.exists(name): return
        time.sleep(0.01)
    sys.exit(f"{name} did not come")
if os.fork(): sys.exit()
os.close(1); os.close(2)
wait_for('go'); os.write(file, b' and half'); os.close(file); wait_for('end')
"""
)


@contextmanager
def left_behind(node):
    """A program that ends, and leaves a child with the file open. The child ends with the test."""
    with node.started(LEFT_BEHIND) as program:
        try:
            yield program
        finally:
            (node.folder / "go").touch()
            (node.folder / "end").touch()


def test_the_command_waits_until_a_process_left_behind_closes_its_file(node):
    node.files("put('restart', 'old')")
    with left_behind(node) as program:
        assert "restart is still open in process" in program.stderr.readline()
        assert node.text() == "old"
        (node.folder / "go").touch()
        assert program.wait(LIMIT_S) == 0 and node.text() == "half and half"


def test_a_signal_ends_that_wait(node):
    """The process goes on, and the file gets its name later."""
    with left_behind(node) as program:
        assert "restart is still open in process" in program.stderr.readline()
        program.send_signal(signal.SIGTERM)
        assert program.wait(LIMIT_S) == 75 and node.text() is None
        (node.folder / "go").touch()
        until(lambda: node.text() == "half and half")


COUNT = """
import fcntl, time
def count(how):
    file = os.open('restart', os.O_RDWR)
    for _ in range(60000):
        try: fcntl.flock(file, how)
        except BlockingIOError: time.sleep(0.001)
        else: break
    else: sys.exit("the lock did not come")
    value = int(os.pread(file, 9, 0))
    os.pwrite(file, str(value + 1).encode(), 0)
    os.close(file)
"""


@pytest.mark.parametrize("how", ["fcntl.LOCK_EX", "fcntl.LOCK_EX | fcntl.LOCK_NB"])
def test_programs_that_update_one_file_under_flock_lose_nothing(node, how):
    """Each program opens the file by itself."""
    node.files("put('restart', '0')")
    node.files(COUNT + f"for _ in range(3): os.fork()\nfor _ in range(10): count({how})\nwhile True:\n  try: os.wait()\n"
               "  except ChildProcessError: break")  # fmt: skip
    assert node.text() == "80"


def test_a_lock_alone_makes_no_generation(node):
    """HDF5 locks each file that it opens to update."""
    node.files("put('restart', 'old')")
    os.utime(node.folder / "restart", (1, 1))
    before = os.stat(node.folder / "restart")
    node.files(
        "import fcntl; file = os.open('restart', os.O_RDWR); fcntl.flock(file, fcntl.LOCK_EX); os.read(file, 3); os.close(file)"
    )
    assert os.path.samestat(before, os.stat(node.folder / "restart")) and node.kept() == {1: "old"}
    assert not node.writing()
