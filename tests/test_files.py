"""The name of a restart file always stands for one whole generation, whichever process is killed, at any moment."""

import errno
import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress

import pytest
from command import MAINSTAY
from limits import LIMIT_S, until
from protected import HELPER, PRELUDE, end_of, node_in, python
from ways import rarely

OPEN = "file = os.open('restart', os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.write(file, b'half')\n"


@pytest.fixture
def node(scratch):
    with node_in(scratch / "run") as node:
        yield node


def test_a_file_has_its_name_once_it_is_closed(node):
    node.files("put('restart', 'old')")
    done = node.files(
        """
        with open('restart', 'w') as file:
            file.write('new')
            file.flush()
            print(past('restart'), get('restart'))
        os.write(1, get('restart').encode())
        """.replace("\n        ", "\n")
    )
    assert done.stdout == "newold new\n" or done.stdout == "old new\nnew"
    assert node.text() == "new" and node.kept() == {1: "old", 2: "new"} and done.stderr == ""
    assert not node.writing()


@pytest.mark.parametrize("end, code", [
    ("killed()", 137), ("os.abort()", 134), ("os._exit(3)", 3), ("sys.exit(1)", 1), 
    ("os.set_inheritable(file, True); os.execv('/bin/false', ['false'])", 1),
    ("os.fork() or killed(); os.wait()", 0),
])  # fmt: skip
def test_a_program_that_ends_badly_with_the_file_open_leaves_the_previous_file(node, end, code):
    node.files("put('restart', 'old')")
    done = node.files(OPEN + end, code=code or 75)
    assert node.text() == "old" and node.torn() == "half"
    assert "its program failed or was killed with it open; the previous file stays" in done.stderr
    assert node.kept() == {1: "old"} and not node.writing()


@pytest.mark.parametrize("end", [
    "os.close(file)", "sys.exit(0)", "os._exit(0)", "pass", "os.dup2(1, file)", "os.closerange(3, 100)",
    "os.execv('/bin/true', ['true'])", "os.fork() and os.wait(); os._exit(0)", "os.fork() or os._exit(0); os.close(file); os.wait()",
    "os.set_inheritable(file, True); os.execv('/bin/true', ['true'])",
    "import ctypes; ctypes.CDLL(None).quick_exit(0)", "import ctypes; ctypes.CDLL(None).daemon(1, 1); os.close(file)",
    "again = os.open(f'/dev/fd/{file}', os.O_WRONLY); os.close(file)",
])  # fmt: skip
def test_a_program_that_closes_the_file_or_ends_in_order_leaves_the_new_file(node, end):
    node.files("put('restart', 'old')")
    done = node.files(OPEN + end)
    assert (node.text(), node.torn(), done.stderr) == ("half", None, "")


def test_a_file_that_was_never_whole_has_no_name(node):
    node.files(OPEN + "killed()", code=137)
    assert (node.text(), node.torn()) == (None, "half")
    assert node.files("print(os.path.exists('restart'), os.listdir('.'))").stdout == "False []\n"


STARTS = {
    "files": lambda node: node.files("pass"),
    "run": lambda node: node.mainstay("run", "--restarts", "1", "--", *python("pass")),
    "salvage": lambda node: node.mainstay("salvage", node.folder),
}


@pytest.mark.parametrize("start", STARTS)
def test_a_job_is_killed_with_its_helper_after_the_close(node, start):
    """The next start on that node completes the file."""
    node.files("put('restart', 'old')")
    with node.faulty_helper("any:hold:0") as helper:
        with node.started("put('restart', 'new'); print('closed', flush=True); signal.pause()") as program:
            assert program.stdout.readline() == "closed\n"
            helper.meets()
        assert node.text() == "old"
        end_of(helper.process.pid)
    assert node.text() == "old"
    said = STARTS[start](node)
    assert node.text() == "new" and node.kept() == {1: "old", 2: "new"} and not node.writing()
    assert start != "salvage" or f"{node.folder}/restart: completed" in said


def test_a_helper_is_killed_at_each_step_of_a_publication(node):
    """The name stands for the previous file or the new one, and the next start completes the new one."""
    before = None
    for step in range(100):
        with node.faulty_helper(f"any:kill:{step}") as helper:
            with node.started(f"put('restart', '{step}'); print('closed', flush=True); signal.pause()") as program:
                assert program.stdout.readline() == "closed\n"
                node.is_done()
            if not helper.has_met():
                break
        assert node.text() in (before, str(step)), step
        node.files("pass")
        assert node.text() == str(step) and not node.writing(), step
        assert all(one["good"] for one in node.status()["files"][0]["generations"]), step
        before = str(step)
    assert 6 < step < 100


def test_hashes_without_their_generation_go(node):
    """A helper is killed at each step of a publication that removes a generation."""
    for number in range(3):
        node.files(f"put('restart', '{number}')", "--keep", "1")
    for step in range(100):
        with node.faulty_helper(f"unlink:kill:{step}", within=".mainstay/kept") as helper:
            with node.started(
                f"put('restart', '{step}'); print('closed', flush=True); signal.pause()", "--keep", "1"
            ) as program:
                assert program.stdout.readline() == "closed\n"
                node.is_done()
            if not helper.has_met():
                break
        node.files("pass")
        kept = sorted(path.name for path in (node.folder / ".mainstay" / "kept").iterdir())
        assert len(kept) == 2 and kept[1] == kept[0] + ".hashes", (step, kept)
    assert 1 < step < 100


@pytest.mark.parametrize("start", STARTS)
def test_a_job_is_killed_with_its_helper_in_the_middle(node, start):
    """The next start reads the previous file."""
    node.files("put('restart', 'old')")
    with node.started(OPEN + "print('open', flush=True); signal.pause()") as program:
        assert program.stdout.readline() == "open\n"
        node.kill_helper()
    said = STARTS[start](node)
    assert node.files("print(get('restart'))").stdout == "old\n"
    assert (node.text(), node.torn()) == ("old", "half")
    assert start != "salvage" or f"{node.folder}/restart: torn" in said


def test_a_torn_file_of_a_killed_job_fails_no_later_job(node):
    """The next job prints its line once. The helper of the killed job still runs."""
    node.files("put('restart', 'old')")
    with node.started(OPEN + "print('open', flush=True); signal.pause()") as program:
        assert program.stdout.readline() == "open\n"
    until(lambda: node.torn() == "half")
    assert "its program failed or was killed with it open" in node.files("put('restart', 'new')").stderr
    assert node.files("pass").stderr == "" and node.text() == "new"


TORN = OPEN + "if not os.fork(): killed()\nos.wait(); os.close(file)\n"
WAITS = "print('torn', flush=True); sys.stdin.readline()\n"


def test_only_the_job_of_a_torn_file_prints_its_line_and_fails(node):
    """Before, the next `mainstay files` to end on the node printed the line, and had the status 75."""
    with node.started(TORN + WAITS) as program:
        assert program.stdout.readline() == "torn\n"
        until(lambda: node.torn() == "half")
        assert node.files("put('restart.2', 'x')").stderr == ""
        _, errors = program.communicate("\n", timeout=LIMIT_S)
    assert program.returncode == 75 and "restart: its program failed or was killed with it open" in errors


def test_the_last_rank_of_a_job_prints_the_line_of_a_torn_file(node):
    """An earlier rank cannot know if the file is written again. A rank whose program fails prints it at once."""
    node.variables |= {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3", "PMIX_NAMESPACE": "job1"}
    with node.started(WAITS.replace("torn", "up")) as last, node.started(TORN + WAITS) as first:
        assert (last.stdout.readline(), first.stdout.readline()) == ("up\n", "torn\n")
        until(lambda: node.torn() == "half")
        _, errors = first.communicate("\n", timeout=LIMIT_S)
        assert (first.returncode, errors) == (0, "")
        _, errors = last.communicate("\n", timeout=LIMIT_S)
        assert last.returncode == 75 and "restart: its program failed or was killed with it open" in errors
    with node.started(WAITS.replace("torn", "up")) as last:
        assert last.stdout.readline() == "up\n"
        done = node.files(TORN + "sys.exit(3)", code=3)
        assert "restart: its program failed or was killed with it open" in done.stderr
        _, errors = last.communicate("\n", timeout=LIMIT_S)
        assert (last.returncode, errors) == (0, "")


def test_a_job_fails_with_a_set_that_is_not_whole_while_another_job_goes_on(node):
    with node.started("print('up', flush=True); sys.stdin.readline()") as other:
        assert other.stdout.readline() == "up\n"
        done = node.files("put('restart.base', 'new'); put('restart.0', 'new')", *SET, code=75)
        assert "its set is not whole" in done.stderr and not node.writing()
        _, errors = other.communicate("\n", timeout=LIMIT_S)
        assert (other.returncode, errors) == (0, "")


@pytest.mark.parametrize("again, text", [
    ("put('restart', 'new')", "new"), ("put('restart.tmp', 'new'); os.rename('restart.tmp', 'restart')", "new"),
    ("put('other', 'new'); os.rename('other', 'restart')", "new"), ("os.unlink('restart')", None),
    ("new = open('restart.tmp', 'w'); os.rename('restart.tmp', 'restart'); new.write('new'); new.close()", "new"),
])  # fmt: skip
def test_a_torn_file_that_the_program_has_replaced_has_a_line_and_fails_nothing(node, again, text):
    node.files("put('restart', 'old')")
    done = node.files(TORN + again)
    assert node.text() == text and "restart: its program failed or was killed with it open" in done.stderr, done


def test_a_torn_file_that_a_process_has_open_still_is_told_at_the_end_of_its_job(node):
    """Before, it was torn later, and nobody heard of it: the status was 0."""
    node.files("put('restart', 'old')")
    left = "if os.fork(): os._exit(0)\nos.close(1); os.close(2)\n"
    left += "for _ in range(60000):\n  if os.path.exists('go'): break\n  time.sleep(0.01)"
    try:
        done = node.files("import time\n" + OPEN + "if not os.fork(): killed()\nos.wait()\n" + left, code=75)
        assert "restart: its program failed or was killed with it open" in done.stderr
    finally:
        (node.folder / "go").touch()
    until(lambda: node.torn() == "half")
    assert node.text() == "old"


def test_the_next_helper_knows_that_a_file_is_torn(node):
    """A process was killed with it open, then the helper, and another process closes it."""
    node.files("put('restart', 'old')")
    # The helper has seen the kill before it answers.
    program = OPEN + "if not os.fork(): killed()\nos.wait(); os.path.exists('restart'); print('torn', flush=True)\n"
    program += "sys.stdin.readline(); os.close(file)"
    with node.started(program) as program:
        assert program.stdout.readline() == "torn\n"
        node.kill_helper()
        _, errors = program.communicate("\n", timeout=LIMIT_S)
        assert program.returncode == 75 and "its program failed or was killed with it open" in errors
    assert node.text() == "old"


def test_the_next_helper_knows_of_a_holder_that_was_killed_together_with_the_helper(node):
    """The helper had no time to see the kill."""
    node.files("put('restart', 'old')")
    program = OPEN + "if not os.fork(): print(os.getpid(), flush=True); signal.pause()\n"
    program += "sys.stdin.readline(); os.close(file); os.wait()"
    with node.started(program) as program:
        child, helper = int(program.stdout.readline()), node.helper()
        os.kill(helper, signal.SIGSTOP)
        end_of(child)
        end_of(helper)
        _, errors = program.communicate("\n", timeout=LIMIT_S)
        assert program.returncode == 75 and "its program failed or was killed with it open" in errors
    assert node.text() == "old"


def test_a_torn_file_that_was_replaced_fails_nothing_with_catch_kernel_either(node):
    torn = OPEN + "child = os.fork()\nif not child: killed()\nos.wait(); os.close(file)\n"
    done = node.files(torn + "put('restart', 'new')", "--catch", "kernel")
    assert node.text() == "new" and "restart: its program failed or was killed with it open" in done.stderr, done


def test_a_torn_set_that_is_followed_by_a_whole_one_fails_nothing(node):
    torn = "put('restart.base', 'x'); put('restart.0', 'x')\n" + TORN.replace("'restart'", "'restart.1'")
    done = node.files(torn + WRITE_SET, *SET)
    assert [node.text(name) for name in MEMBERS] == ["new"] * 3 and not node.writing(), done
    assert (
        "restart.1: its program failed or was killed" in done.stderr
        and "restart.0: its set is not whole" in done.stderr
    ), done
    assert node.files(torn, *SET, code=75).stderr.count("not whole") == 2 and not node.writing()


def test_a_torn_file_is_not_replaced_by_another_one_or_by_a_half(node):
    for again in (
        "put('restart.2', 'new')",
        "file = open('restart', 'w'); file.write('half'); file.flush(); os.fork() or killed(); os._exit(0)",
    ):
        done = node.files(TORN + again, code=75)
        assert "restart: its program failed or was killed with it open" in done.stderr, done


def test_a_file_that_was_not_saved_and_is_written_again_fails_nothing(node):
    again = (
        "for _ in range(1000):\n  try:\n    put('restart', 'x')\n  except OSError:\n    break\nput('restart', 'newest')"
    )
    with node.faulty_helper(f"fsync:{errno.EIO}:0") as helper:
        done = node.files("put('restart', 'new')\n" + again)
        assert helper.has_met() and "restart: it could not be saved" in done.stderr, done
    assert node.text() == "newest"


def test_a_program_that_updates_after_such_a_kill_begins_with_the_previous_file(node):
    node.files("put('restart', 'old')")
    with node.started(OPEN + "print('open', flush=True); signal.pause()") as program:
        assert program.stdout.readline() == "open\n"
        node.kill_helper()
    node.files(
        "put('restart', '!', 'a+'); file = open('restart', 'r+'); file.write('O'); file.close()", match=["restart"]
    )
    assert node.text() == "Old!" and node.torn() == "half"


@pytest.mark.parametrize("moment", ["open", "closed"])
def test_the_helper_alone_is_killed(node, moment):
    """The program goes on with the next helper."""
    node.files("put('restart', 'old')")
    program = "print('open', flush=True); sys.stdin.readline(); os.write(file, b' and half'); os.close(file)\n"
    program += "print('closed', flush=True); sys.stdin.readline(); print(get('restart'))"
    with node.started(OPEN + program) as program:
        for line in ("open\n", "closed\n"):
            assert program.stdout.readline() == line
            if line.strip() == moment:
                node.kill_helper()
            program.stdin.write("\n")
            program.stdin.flush()
        said, errors = program.communicate(timeout=100)
        assert (program.returncode, said, errors) == (0, "half and half\n", "")
    assert node.text() == "half and half"


def test_a_file_is_whole_only_once_every_process_has_closed_it(node):
    """A copy of the descriptor by fcntl, as NumPy makes; then a child that is killed with the file open."""
    node.files("put('restart', 'old')")
    done = node.files(
        OPEN
        + "import fcntl; copy = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 10); os.close(copy); print(past('restart'))\n"
        "os.write(file, b' and half'); os.close(file)"
    )
    assert done.stdout == "old\n" and node.text() == "half and half"
    done = node.files(OPEN + "child = os.fork()\nif not child: killed()\nos.waitpid(child, 0); os.close(file)", code=75)
    assert node.text() == "half and half" and node.torn() == "half" and not node.writing()


def test_the_shell_redirects_to_a_protected_file(node):
    """The shell opens the file, forks, copies its descriptor, and runs programs."""
    script = (
        "echo one > restart; { echo two; /bin/echo three; } > restart.2; exec > restart.3; echo 4; exec /bin/echo five"
    )
    node.files(["sh", "-c", script])
    assert [node.text(name) for name in ("restart", "restart.2", "restart.3")] == ["one\n", "two\nthree\n", "4\nfive\n"]
    done = node.files(["bash", "-c", "echo half > restart; (echo x; kill -9 $BASHPID) > restart; true"], code=75)
    assert node.text() == "half\n" and node.torn() == "x\n", done


def test_older_generations_are_kept(node):
    """A failing program may close a bad file in order. The file counts as whole, so the user needs the older ones."""
    for number in range(4):
        node.files(f"put('restart', '{number}')", "--keep", "3")
    assert node.kept() == {2: "1", 3: "2", 4: "3"}
    node.files("with open('restart', 'w') as file:\n  file.write('bad')\n  raise OSError", "--keep", "3", code=1)
    assert node.text() == "bad" and node.kept() == {3: "2", 4: "3", 5: "bad"}
    node.mainstay("files", "restore", ".", "restart")
    assert node.text() == "3"
    node.files("put('restart', '4')", "--keep", "1")
    assert node.kept() == {6: "4"}


def test_a_file_with_a_time_to_come_is_replaced(node):
    """The clock of another machine has made it, or a program has set its time."""
    (node.folder / "restart").write_text("by hand")
    os.utime(node.folder / "restart", (1 << 32, 1 << 32))
    node.files("put('restart', 'new')")
    assert node.text() == "new"


@pytest.mark.parametrize("again", ["'wb'", "'r+b'"])
def test_the_holes_of_a_file_take_no_room(node, again):
    """GNU tar's and Python's tests of sparse files found a file without holes once it had its name."""
    for how in ["'wb'", again]:
        node.files(
            f"file = open('restart', {how}); file.write(b'begin'); file.seek(9000000); file.write(b'end'); file.close()"
        )
        found = os.stat(node.folder / "restart")
        assert (found.st_size, found.st_blocks * 512 < 100000) == (9000003, True), found
        assert (node.folder / "restart").read_bytes() == b"begin" + bytes(8999995) + b"end"
    assert node.mainstay("files", "verify", ".").count("good") == 2


def test_a_hard_link_of_a_generation_stays_as_it_is_when_the_file_is_written_anew(node):
    node.files("put('restart', 'old')")
    os.link(node.folder / "restart", node.folder / "mine")
    node.files("put('restart', 'new', 'r+')")
    assert (node.text(), node.text("mine")) == ("new", "old")


def test_a_file_that_does_not_match_is_left_alone(node):
    node.files(
        "put('other', 'x'); put('restart.tmp', 'y'); put('.restart', 'z'); os.mkdir('restart.d'); put('restart.d/a', 'b')",
        "--exclude", "*.tmp", match=["restart*", ".restart"],
    )  # fmt: skip
    assert sorted(os.listdir(node.folder)) == [".restart", "other", "restart.d", "restart.tmp"]


def test_a_pattern_with_a_slash_is_for_the_whole_path(node):
    os.mkdir(node.folder / "part")
    node.files("put('part/restart', 'x'); put('restart', 'y')", match=["*/part/restart"])
    assert (node.folder / "part" / ".mainstay").exists() and not (node.folder / ".mainstay").exists()


def test_a_log_that_is_appended_to_passes_through(node):
    with node.started(
        "log = open('restart.log', 'a'); log.write('line'); log.flush(); print('said', flush=True); signal.pause()"
    ) as program:
        assert program.stdout.readline() == "said\n"
        assert node.text("restart.log") == "line"
    assert not (node.folder / ".mainstay").exists()
    # An append in place ends the generation, and is no damage.
    node.files("put('restart', 'one'); put('restart', '!', 'a'); print(get('restart'))")
    assert node.files("print(get('restart'))").stdout == "one!\n" and node.kept() == {}
    # An append to a staged file goes into that file.
    node.files(
        "a = open('restart', 'w'); a.write('one'); a.flush(); b = open('restart', 'a'); b.write('two'); b.close(); a.close()"
    )
    assert node.text() == "onetwo"


def test_a_signal_for_the_command_reaches_the_program(node):
    with node.started(
        "signal.signal(signal.SIGTERM, lambda *_: (put('restart', 'last'), sys.exit(5))); print('up', flush=True)\n"
        "while True: signal.pause()"
    ) as program:
        assert program.stdout.readline() == "up\n"
        program.send_signal(signal.SIGTERM)
        assert program.wait(100) == 5
    assert node.text() == "last"


def test_other_preloads_stay_and_the_helper_has_none(node):
    """The helper has no file, signal handler or working directory of the program."""
    done = node.files(
        f"put('restart', 'x'); print(os.environ['LD_PRELOAD']); print(get('restart'))",
        variables={"LD_PRELOAD": "/lib/x86_64-linux-gnu/libm.so.6"},
    )
    assert done.stdout.splitlines()[0].endswith("/libmainstay_files.so:/lib/x86_64-linux-gnu/libm.so.6")
    with node.started(
        OPEN + "print('open', flush=True); sys.stdin.readline(); put('restart.2', ''); print('again', flush=True)\n"
        "signal.pause()"
    ) as program:
        assert program.stdout.readline() == "open\n"
        node.kill_helper()
        # The library starts this helper.
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "again\n"
        helper = node.helper()
        environment = open(f"/proc/{helper}/environ").read()
        assert "LD_PRELOAD" not in environment and "MAINSTAY_FILES_MATCH" not in environment
        until(lambda: not [link for link in links_of(helper) if str(node.folder) in link])
        assert os.readlink(f"/proc/{helper}/cwd") == "/"


def links_of(process):
    """The paths of the files that a process has open."""
    links = []
    for fd in os.listdir(f"/proc/{process}/fd"):
        with suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/{process}/fd/{fd}"))
    return links


def test_all_programs_of_the_node_see_a_new_file_at_once(node):
    node.files("put('restart', 'old')")
    done = node.files(
        OPEN + "one, other = os.stat('restart'), os.fstat(file)\n"
        "print(get('restart'), one.st_size, os.path.samestat(one, other), os.path.samestat(os.lstat('restart'), other), flush=True)\n"
        "import subprocess; subprocess.run(['cat', 'restart']); print('', past('restart')); os.close(file)"
    )
    assert done.stdout == "half 4 True True\nhalf old\n"


def test_a_new_file_is_the_same_file_before_and_after_it_has_its_name(node):
    """cp said that another file had replaced the new one, and Python's shutil.rmtree that it was a symbolic link."""
    node.files("put('restart', 'old')")
    with node.faulty_helper("rename:hold:0") as held:
        done = node.files(
            "import subprocess\n"
            "put('restart', 'new'); before = [os.fstat(os.open('restart', os.O_RDWR))]\n"
            "file = os.open('restart', os.O_RDONLY); before += os.stat('restart'), os.fstat(file)\n"
            f"subprocess.run(['stat', '-c', '%i', 'restart']); os.unlink({str(held.notes / 'hold')!r})\n"
            "os.chmod('restart', 0o600); after = [os.fstat(file), os.fstat(os.dup(file)), os.stat('restart')]\n"
            "print(*[one.st_ino for one in before + after]); print(past('restart'), os.read(file, 3))"
        )
    first, rest, read = done.stdout.splitlines()
    inode = os.stat(node.folder / "restart").st_ino
    assert {int(word) for word in [first, *rest.split()]} == {inode} and read == "new b'new'"


def test_a_stage_on_a_disk_may_use_an_inode_again(node, scratch):
    """A later file may get the inode that an older one had in the stage."""
    done = node.files(
        """
for number in range(30):
    put('restart', str(number)); os.stat('restart'); os.chmod('restart', 0o600); print(os.stat('restart').st_ino)
""",
        *("--stage", scratch / "stage", "--keep", 99),
    )
    kept = [os.stat(node.folder / f".mainstay/kept/restart.g{number}").st_ino for number in range(1, 31)]
    assert list(map(int, done.stdout.split())) == kept


def test_a_program_that_only_looks_through_a_writable_descriptor_publishes_nothing(node):
    """HDF5 opens a file for reading and writing before it writes it anew."""
    node.files("put('restart', 'old')")
    before = os.stat(node.folder / "restart")
    node.files(
        "file = os.open('restart', os.O_RDWR); os.read(file, 2); os.fstat(file); os.close(file); open('restart', 'r+').close()"
    )
    assert os.path.samestat(before, os.stat(node.folder / "restart")) and node.kept() == {1: "old"}


CHANGES = {
    "write": ("os.write(file, b'NEW')", "NEWdle"),
    "pwrite": ("os.pwrite(file, b'NEW', 3)", "midNEW"),
    "writev": ("os.lseek(file, 1, 0); os.writev(file, [b'N', b'EW'])", "mNEWle"),
    "mmap": ("import mmap; memory = mmap.mmap(file, 6); memory[:3] = b'NEW'", "NEWdle"),
    "ftruncate": ("os.ftruncate(file, 3)", "mid"),
    "dup": ("os.write(os.dup(file), b'NEW')", "NEWdle"),
    "sendfile": ("os.write(1, b''); other = os.open('/proc/self/cmdline', 0); os.copy_file_range"
                 " and os.sendfile(file, os.open(sys.executable, 0), 1, 3)", "ELFdle"),
    "child": ("os.set_inheritable(file, True); os.spawnl(os.P_WAIT, '/bin/sh', 'sh', '-c', f'printf NEW >&{file}')", "NEWdle"),
    "fork": ("if not os.fork():\n  os.write(file, b'NEW'); os._exit(0)\nos.wait()", "NEWdle"),
}  # fmt: skip


@pytest.mark.parametrize(
    "how, room", [*((how, ()) for how in CHANGES), ("write", ("--room", "1")), ("mmap", ("--room", "1"))]
)
def test_an_update_in_place_is_whole_or_nothing(node, how, room):
    change, result = CHANGES[how]
    node.files("put('restart', 'middle')")
    program = f"file = os.open('restart', os.O_RDWR)\n{change}\n"
    done = node.files(program + "killed()", *room, code=137)
    assert (node.text(), node.torn()) == ("middle", result), done
    node.files(program + "os.close(file)", *room)
    assert node.text() == result and not node.writing()


@pytest.mark.parametrize("catch", [(), ("--catch", "kernel")], ids=["library", "kernel"])
@pytest.mark.parametrize("flags", ["os.O_RDONLY", "os.O_WRONLY | os.O_APPEND"])
def test_an_open_that_truncates_makes_a_new_file_whatever_else_it_asks_for(node, flags, catch):
    """Before, it truncated the published file and its generation."""
    node.files("put('restart', 'old')")
    program = f"file = os.open('restart', {flags} | os.O_TRUNC)\n"
    node.files(program + "killed()", *catch, code=137)
    assert node.text() == "old" and node.kept() == {1: "old"}
    node.files(program + "os.close(file)", *catch)
    assert node.text() == "" and node.kept() == {1: "old", 2: ""}


def test_calls_on_a_name_come_in_order_with_its_publication(node):
    node.files(
        "put('restart', 'new'); os.chmod('restart', 0o640); os.utime('restart', (1, 2)); print(os.stat('restart').st_mtime)\n"
        "os.link('restart', 'mine'); os.rename('restart', 'restart.2'); print(os.path.exists('restart')); os.truncate('restart.2', 2)"
    )
    assert (node.text(), node.text("restart.2"), node.text("mine")) == (None, "ne", "new")
    assert os.stat(node.folder / "restart.2").st_mode & 0o7777 == 0o640 and os.stat(node.folder / "mine").st_mtime == 2
    done = node.files(
        "put('restart', 'x'); os.unlink('restart'); print(os.path.exists('restart')); os.unlink('restart.2')"
    )
    assert done.stdout == "False\n" and node.kept() == node.kept("restart.2") == {}
    assert (node.text(), node.text("restart.2")) == (None, None)


def test_attributes_of_a_file_that_has_no_name_yet(node):
    """Python's shutil.copy2 and shutil.move failed at times, with ENOENT: they list the attributes of a new file by name."""
    with node.faulty_helper("rename:hold:0") as held:
        done = node.files(
            "import ctypes; put('restart', 'new'); print(os.listxattr('restart'))\n"
            f"os.unlink({str(held.notes / 'hold')!r}); os.setxattr('restart', 'user.step', b'7'); os.lchown('restart', -1, -1)\n"
            "print(os.getxattr('restart', 'user.step'), ctypes.CDLL(None).lutimes(b'restart', None))\n"
            "put('restart', 'newer'); os.lchown('restart', -1, -1); put('restart', 'newest')\n"
            "print(ctypes.CDLL(None).lutimes(b'restart', None), os.listxattr('restart'))",
            *("--keep", 3),
        )
    assert done.stdout == "[]\nb'7' 0\n0 []\n"
    assert os.getxattr(node.folder / ".mainstay/kept/restart.g1", "user.step") == b"7"


def test_a_file_without_a_name_is_in_the_file_system_of_its_folder(node):
    done = node.files(
        OPEN + "print(os.statvfs('restart').f_blocks == os.statvfs('.').f_blocks); os.statvfs('restart.2')", code=1
    )
    assert (
        done.stdout == "True\n" and "FileNotFoundError: [Errno 2] No such file or directory: 'restart.2'" in done.stderr
    )


def test_a_program_that_renames_its_new_file_over_the_old_one_is_protected(node):
    node.files("put('restart', 'old')")
    node.files("put('restart.tmp', 'new'); os.rename('restart.tmp', 'restart')")
    assert (node.text(), node.text("restart.tmp")) == ("new", None) and node.kept()[1] == "old"
    node.files("put('restart', 'x'); os.rename('restart', 'plain'); put('other', 'y'); os.rename('other', 'restart')")
    assert (node.text("plain"), node.text()) == ("x", "y")
    node.files(
        "file = open('restart.tmp', 'w'); file.write('half'); file.flush(); os.rename('restart.tmp', 'restart'); killed()",
        code=137,
    )
    assert node.text() != "half"


@pytest.mark.parametrize("move, name", [
    ("os.rename('restart', 'restart.2')", "restart.2"), ("os.unlink('restart')", None),
    ("put('restart.2', 'x'); os.rename('restart.2', 'restart')", None),
    ("os.mkdir('new'); os.rename('restart', 'new/restart'); os.rename('new', 'now')", "now/restart"),
])  # fmt: skip
def test_a_file_that_is_open_to_update_keeps_its_descriptor_under_any_name(node, move, name):
    """Before, the first write failed with ENOENT, or went to the file that had the name then."""
    node.files("put('restart', 'old')")
    node.files(f"file = os.open('restart', os.O_RDWR); {move}; os.write(file, b'NEW'); os.close(file)")
    assert name is None or (node.folder / name).read_text() == "NEW"
    assert node.text() == ("x" if "restart.2', 'x'" in move else None)


def test_a_rename_fails_as_the_kernel_lets_it_fail(node):
    """The file is open, and has no name yet."""
    done = node.files(
        """
        import ctypes
        put('restart', 'old')
        file = open('restart.new', 'w'); file.write('new'); file.flush()
        libc = ctypes.CDLL(None, use_errno=True)
        print(libc.renameat2(-100, b'restart.new', -100, b'restart', 1), ctypes.get_errno())
        print(libc.rename(b'restart.x', b'restart.x'), ctypes.get_errno())
        """.replace("\n        ", "\n")
    )
    assert done.stdout == f"-1 {errno.EEXIST}\n-1 {errno.ENOENT}\n" and node.text() == "old"


def test_a_program_without_descriptors_0_to_2_is_protected(node):
    node.files(
        "os.close(0); os.close(1); os.close(2); put('restart', 'x'); file = os.open('restart', 0); os._exit(file)"
    )
    assert node.text() == "x"


def flip(path):
    """Flips a bit as a disk does: the times stay."""
    before = os.stat(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("damaged", ["restart", ".mainstay/kept/restart.g2.hashes"])
def test_a_damaged_file_gives_way_to_the_previous_one(node, damaged):
    node.files("put('restart', 'old'); put('restart', 'new')")
    flip(node.folder / damaged)
    node.end()  # a helper verifies a file once
    done = node.files("print(get('restart'))")
    assert done.stdout == "old\n" and "restart is damaged (generation 2); generation 1 is read instead" in done.stderr
    done = node.files("print(get('restart'))", "--damaged", "fail", code=1)
    assert "Input/output error" in done.stderr and f"mainstay files restore {node.folder} restart@1" in done.stderr
    assert "DAMAGED" in node.mainstay("files", "verify", ".", code=None)
    assert [one["good"] for one in node.status()["files"][0]["generations"]] == [False, True]
    node.mainstay("files", "restore", ".", "restart")
    assert node.text() == "old"
    flip(node.folder / "restart")
    done = node.files("print(get('restart'))", code=1)
    assert "restart is damaged, and so is each older generation; remove it" in done.stderr


def test_ls_verify_and_restore(node):
    for folder, reason in (
        (".", "no protected files in ."),
        ("nowhere", "nowhere cannot be read: No such file or directory"),
    ):
        for words in (["ls"], ["verify"], ["ls", "--json"], ["verify", "--json"]):
            done = node.run([MAINSTAY, "files", *words, folder], code=3)
            assert reason in done.stderr and done.stdout == "", done
    node.run([MAINSTAY, "files", "restore", "nowhere", "restart"], code=3)
    node.files("put('restart', 'old'); put('restart', 'newer')")
    rows = [line.split() for line in node.mainstay("files", "ls", ".").splitlines()]
    assert [row[:3] for row in rows[-2:]] == [["restart", "2", "5"], ["restart", "1", "3"]] and rows[-2][-3:] == [
        "under",
        "its",
        "name",
    ]
    assert node.mainstay("files", "verify", ".").count("good") == 2
    listed = json.loads(node.mainstay("files", "ls", ".", "--json"))["files"][0]
    assert listed["name"] == "restart" and [one["generation"] for one in listed["generations"]] == [2, 1]
    assert (
        node.mainstay("files", "restore", ".", "restart@1") == "./restart is generation 1 now\n"
        and node.text() == "old"
    )
    done = node.run([MAINSTAY, "files", "restore", ".", "restart@7"], code=1)
    assert "there is no such generation; `mainstay files verify .` lists" in done.stderr and node.text() == "old"
    done = node.run([MAINSTAY, "ls", "."], code=3)
    assert "is not a Mainstay space" in done.stderr and "`mainstay files ls .`" in done.stderr
    (node.folder / "restart").unlink()
    (node.folder / "restart").write_text("by hand")
    assert "was not written with `mainstay files`" in node.mainstay("files", "ls", ".")
    assert node.files("print(get('restart'))").stdout == "by hand\n"


def test_the_close_fails_if_the_target_is_full(node):
    program = "put('restart', 'o' * 400000)\ntry:\n  put('restart', 'n' * 900000)\nexcept OSError as error:\n  print(error.errno)"
    script = 'mount -t tmpfs -o size=1m none . && cd . && cd "$PWD" && "$@"; echo $?; head -c 3 restart; ls .mainstay/writing'
    done = node.run(["unshare", "-m", "sh", "-c", script, "sh", *node.words(program)])
    assert done.stdout == f"{errno.ENOSPC}\n0\nooo" and "no room for 900000 bytes" in done.stderr, done


@pytest.mark.parametrize("end, text", [("os.close(file)", "half"), ("killed()", "old")])
def test_a_file_without_room_in_memory_is_written_through(node, end, text):
    node.files("put('restart', 'old')")
    done = node.files(
        OPEN + "print(len(os.listdir('.mainstay/writing')), get('restart'), flush=True)\n" + end,
        "--room",
        "1",
        code=None,
    )
    assert done.stdout == "1 half\n" and node.text() == text and not node.writing()


def test_a_file_that_cannot_be_saved_after_the_close_has_a_line(node):
    node.files("put('restart', 'old')")
    with node.faulty_helper(f"fsync:{errno.EIO}:0") as helper:
        done = node.files("put('restart', 'new')", code=75)
        assert helper.has_met() and "restart: it could not be saved" in done.stderr and node.text() == "old"
        assert "could not be saved" in node.mainstay("status", ".", code=None)
        again = "try:\n  put('restart', 'x')\nexcept OSError as error:\n  print(error.errno)\nput('restart', 'newest')"
        assert node.files(again).stdout == f"{errno.EIO}\n"
        assert node.text() == "newest"


def test_a_program_of_another_user_is_not_protected_and_says_so(node):
    os.chmod(node.folder, 0o777)
    os.chmod(node.folder.parent, 0o755)
    words = ["setpriv", "--reuid", "65534", "--clear-groups", "sh", "-c", "echo x > restart"]
    done = node.files(words, code=None)
    assert node.text() == "x\n" and "not protected" in done.stderr, done


def test_a_program_that_no_library_can_be_loaded_into_is_refused_by_name(node, scratch):
    (scratch / "one.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", scratch / "static", scratch / "one.c"], check=True)
    shutil.copy("/bin/true", scratch / "set-user")
    os.chown(scratch / "set-user", 65534, 65534)
    os.chmod(scratch / "set-user", 0o4755)
    for name, reason in (("static", "it is linked statically"), ("set-user", "it runs as another user")):
        done = node.files([scratch / name], code=126)
        assert f"{scratch / name} cannot be caught: {reason}" in done.stderr


def test_a_stage_that_others_can_enter_is_refused(node):
    os.mkdir(node.stage, 0o755)
    os.chmod(node.stage, 0o755)
    assert "other users can enter it" in node.files("pass", code=None).stderr
    os.rmdir(node.stage)
    os.symlink("/tmp", node.stage)
    assert "cannot be used" in node.files("pass", code=None).stderr
    os.unlink(node.stage)


def test_a_relative_stage_is_in_the_working_directory(node):
    """Before, the helper looked for it in /, and the command waited for the helper for half a minute."""
    for number, (command, match) in enumerate((("files", "--match"), ("run", "--files"))):
        program = python(f"put('restart', '{number}'); print(os.environ['MAINSTAY_FILES_STAGE'])")
        done = node.run([MAINSTAY, command, match, "restart*", "--stage", "below", "--", *program])
        assert done.stdout == f"{node.folder}/below\n" and node.text() == str(number)
        until(lambda: not (node.folder / "below").exists())


LOSES_THE_STAGE = """
put('restart', 'x')
stage = os.environ['MAINSTAY_FILES_STAGE']
os.kill(helper(), signal.SIGKILL)
os.rename(stage, stage + '.gone')
open(stage, 'x').close()
"""


def test_each_failure_of_the_command_has_its_exit_code(node):
    """The codes differ from those of programs. The help and the guide list them."""
    assert "--match" in node.files("pass", match=(), code=2).stderr
    os.mkdir(node.stage, 0o755)
    assert "cannot be used" in node.files("print('started')", code=4).stderr
    os.rmdir(node.stage)
    for program, code in (("", 75), ("sys.exit(3)", 3)):
        try:
            done = node.files(HELPER + LOSES_THE_STAGE + program, code=code)
            assert "files that are on their way may not be saved" in done.stderr, done
        finally:
            node.stage.unlink()
            subprocess.run(["rm", "-rf", f"{node.stage}.gone"], check=True)


def test_a_program_gets_the_same_errors_from_a_read_only_file_system(node):
    program = "for how in ('w', 'r+', 'x'):\n  for name in ('restart', 'restart.2'):\n    try:\n      open(name, how)\n    except OSError as error:\n      print(name, how, error.errno)"
    script = 'mount -t tmpfs none . && cd "$PWD" && echo old > restart && mount -o remount,ro . && "$@"'
    plain, done = (
        node.run(["unshare", "-m", "sh", "-c", script, "sh", *words])
        for words in (python(program), node.words(program))
    )
    assert str(errno.EROFS) in plain.stdout and done.stdout == plain.stdout, (plain, done)


def test_a_stage_with_strange_files_is_survived(node, scratch):
    for part in ("files", "records", "whole", "failed", "prepared"):
        (node.stage / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(node.stage, 0o700)
    (scratch / "precious").write_text("precious")
    (node.stage / "records" / "0000000000000001").write_bytes(b"garbage")
    (node.stage / "records" / "0000000000000002").write_bytes(f"{scratch}\0001\0001\0precious\0000\0001\0".encode())
    (node.stage / "files" / "0000000000000002").symlink_to(scratch / "precious")
    (node.stage / "whole" / "0000000000000002").write_bytes(b"")
    node.files("put('restart', 'x')", code=None)
    assert node.text() == "x" and (scratch / "precious").read_text() == "precious"
    subprocess.run(["rm", "-rf", node.stage], check=True)


def test_a_record_that_a_killed_helper_has_not_written_to_its_end_goes(node):
    (node.stage / "records").mkdir(mode=0o700, parents=True)
    os.chmod(node.stage, 0o700)
    (node.stage / "records" / "0000000000000001.new").write_bytes(b"half")
    node.files("put('restart', 'x')")
    node.end()


def test_mainstay_run_protects_files_and_restarts_from_the_last_whole_one(node):
    program = (
        "if os.path.exists('restart'):\n  print('from', get('restart')); sys.exit()\nput('restart', 'first')\n"
        + OPEN
        + "killed()"
    )
    said = node.mainstay("run", "--restarts", "1", "--files", "restart*", "--", *python(program))
    assert "from first" in said and node.text() == "first"


SET = ("--set", "{}.base {}.*", "--count", "2")
MEMBERS = ("restart.base", "restart.0", "restart.1")
WRITE_SET = "for name in ('restart.base', 'restart.0', 'restart.1'): put(name, 'new')\n"


def test_the_files_of_a_set_become_whole_together(node):
    node.files(WRITE_SET.replace("new", "old"), *SET)
    assert [node.text(name) for name in MEMBERS] == ["old"] * 3
    done = node.files(
        "put('restart.base', 'new'); put('restart.0', 'new'); os.open('restart.1', os.O_WRONLY); killed()",
        *SET,
        code=137,
    )
    assert [node.text(name) for name in MEMBERS] == ["old"] * 3 and "its set is not whole" in done.stderr
    done = node.files("put('restart.base', 'new'); put('restart.0', 'new')", *SET, code=75)
    assert [node.text(name) for name in MEMBERS] == ["old"] * 3 and "its set is not whole" in done.stderr
    node.files(WRITE_SET, *SET)
    assert [node.text(name) for name in MEMBERS] == ["new"] * 3
    assert not node.writing() and not [*(node.folder / ".mainstay" / "sets").iterdir()]


def test_a_whole_set_hides_no_older_file_behind_itself(node):
    """An older set was never whole. Before, its file was read in place of the newer one."""
    write = "put('restart.0', 'old')\nfor name in ('restart.0', 'restart.base', 'restart.1'): put(name, 'new')\n"
    done = node.files(write + "os.listdir(); print(get('restart.0'))", *SET)
    assert done.stdout == "new\n" and [node.text(name) for name in MEMBERS] == ["new"] * 3
    assert "restart.0: its set is not whole" in done.stderr and "a whole file has replaced it since" in done.stderr


RENAMED_SETS = {
    "other names": "put(name.replace('restart', 'new'), 'new'); os.rename(name.replace('restart', 'new'), name)",
    "longer names": "put(name + '.tmp', 'new'); os.rename(name + '.tmp', name)",
    "open": "file = open(name + '.tmp', 'w'); os.rename(name + '.tmp', name); file.write('new'); file.close()",
}


@pytest.mark.parametrize("how", RENAMED_SETS)
def test_a_file_that_gets_its_name_by_a_rename_belongs_to_the_set_of_that_name(node, how):
    """Before, it got the old name, or none."""
    node.files(WRITE_SET.replace("new", "old"), *SET)
    write = f"for name in {MEMBERS}:\n  {RENAMED_SETS[how]}\n"
    node.files(write + "sys.exit(0)", *SET, match=("restart*", "new*"))
    assert [node.text(name) for name in MEMBERS] == ["new"] * 3
    write = f"for name in {MEMBERS[:2]}:\n  {RENAMED_SETS[how].replace('new', 'half').replace('half.', 'new.')}\n"
    node.files(write, *SET, match=("restart*", "half*"), code=75)
    assert [node.text(name) for name in MEMBERS] == ["new"] * 3 and not node.writing()


def test_a_set_in_a_folder_that_is_renamed_becomes_whole_there(node):
    node.files(
        "os.mkdir('new'); put('new/restart.base', 'new'); put('new/restart.0', 'new'); os.rename('new', 'now')\n"
        "put('now/restart.1', 'new')", *SET
    )  # fmt: skip
    assert [(node.folder / "now" / name).read_text() for name in MEMBERS] == ["new"] * 3


@pytest.mark.parametrize("part", [1, *rarely(0, 2, 3)])
def test_a_helper_is_killed_at_each_step_of_a_set(node, part):
    """After the next start all files of the set are new, or all are old."""
    node.files(WRITE_SET.replace("new", "-1"), *SET)
    for step in range(part, 100, 4):
        with node.faulty_helper(f"any:kill:{step}") as helper:
            with node.started(
                WRITE_SET.replace("new", str(step)) + "print('closed', flush=True); signal.pause()", *SET
            ) as program:
                assert program.stdout.readline() == "closed\n"
                node.is_done()
            if not helper.has_met():
                break
        done = node.files(f"print(*map(get, {MEMBERS}))", *SET)
        texts = set(done.stdout.split())
        assert len(texts) == 1 and texts <= {str(step), str(step - 4), "-1"}, (step, done)
        node.files(WRITE_SET.replace("new", str(step)), *SET)
        assert {node.text(name) for name in MEMBERS} == {str(step)}, step
    assert 4 < step < 96


def test_strange_files_beside_the_protected_ones_are_survived(node, scratch):
    beside = node.folder / ".mainstay"
    for part in ("kept", "writing", "sets/1-x-restart", "torn/restart"):
        (beside / part).mkdir(parents=True)
    (scratch / "outside").mkdir()
    (beside / "kept" / "restart.g18446744073709551615").write_text("x")
    (beside / "kept" / "restart.g3").mkdir()
    os.mkfifo(beside / "kept" / "restart.g3.hashes")
    (beside / "sets" / "1-x-restart" / "commit").write_text("0000000000000001 ../../outside/x\n\n\0 z\n")
    (beside / "writing" / "0000000000000001").write_text("x")
    node.files("put('restart', 'x'); print(get('restart'))", code=None)
    node.mainstay("files", "verify", ".", code=None)
    assert node.text() in ("x", None) and not [*(scratch / "outside").iterdir()]
    node.files(OPEN + "killed()", code=137)


def test_a_renamed_folder_takes_its_files_along(node):
    """A program writes its checkpoint to a folder, and renames the folder at once."""
    done = node.files(
        """
        for step in range(3):
            os.mkdir("new")
            for rank in range(2):
                put(f"new/restart.{rank}", f"{step} of {rank}" * 100_000)
            os.rename("new", f"step{step}")
            assert os.path.exists(f"step{step}/restart.1") and past(f"step{step}/restart.1")
        os.mkdir("open")
        with open("open/restart", "w") as file:
            os.rename("open", "renamed")
            file.write("all")
        """.replace("\n        ", "\n")
    )
    assert done.stderr == "" and not (node.folder / "new").exists() and not (node.folder / "open").exists()
    assert (node.folder / "step2" / "restart.1").read_text() == "2 of 1" * 100_000
    assert (node.folder / "renamed" / "restart").read_text() == "all"


def test_a_file_of_a_removed_folder_does_not_appear_in_a_folder_with_the_same_inode(node):
    done = node.files(
        """
        import shutil
        for turn in range(20):
            os.makedirs(f"d{turn}")
            put(f"d{turn}/restart", f"first{turn}" * 100_000)
            shutil.rmtree(f"d{turn}", ignore_errors=True)
            shutil.rmtree(f"d{turn}", ignore_errors=True)
            os.makedirs(f"e{turn}")
            assert not os.path.exists(f"e{turn}/restart")
            put(f"e{turn}/restart", "second")
            assert get(f"e{turn}/restart") == "second"
        """.replace("\n        ", "\n"),
        code=None,
    )
    # 75: a copy failed because its folder was being removed.
    assert done.returncode in (0, 75) and "Traceback" not in done.stderr, done
    assert all((node.folder / f"e{turn}" / "restart").read_text() == "second" for turn in range(20))


def test_a_relative_path_is_a_pattern(node):
    (node.folder / "below").mkdir()
    node.files("put('below/restart', 'one'); put('restart', 'two')", match=("below/*",))
    assert (node.folder / "below" / ".mainstay").exists() and not (node.folder / ".mainstay").exists()
