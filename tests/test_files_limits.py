"""Files that `mainstay files` once left unprotected without a line. Now it protects them, or prints a line."""

import errno
import os
import shutil
import subprocess

import pytest
from limits import LIMIT_S
from protected import build, node_in

WRITE = "echo new > restart"


@pytest.fixture
def node(scratch):
    with node_in(scratch / "run") as node:
        yield node


# ---- Programs that are started with other variables ----


CLEANED = {
    "env -i": ["env", "-i", "/bin/sh", "-c", WRITE],
    "env -u": ["env", "-u", "LD_PRELOAD", "sh", "-c", WRITE],
    "unset": ["sh", "-c", f"unset LD_PRELOAD MAINSTAY_FILES_STAGE; sh -c '{WRITE}'"],
    "python": f"os.spawnve(os.P_WAIT, '/bin/sh', ['sh', '-c', {WRITE!r}], {{}})",
    "python posix_spawn": f"os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', {WRITE!r}], {{}}), 0)",
    "python subprocess": f"import subprocess; subprocess.run(['/bin/sh', '-c', {WRITE!r}], env={{}})",
    "python system": f"os.environ.clear(); os.system({WRITE!r})",
}


@pytest.mark.parametrize("how", CLEANED)
def test_a_program_that_is_started_without_our_variables_is_protected(node, how):
    node.files(CLEANED[how])
    assert node.text() == "new\n" and node.kept() == {1: "new\n"}


WAYS = ["execve", "null", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat", "vfork"]
WAYS += ["posix_spawn", "posix_spawnp", "system", "popen"]


@pytest.mark.parametrize("way", WAYS)
def test_each_function_that_starts_a_program_puts_our_variables_back(node, way):
    program = build("starting.c", "starting", "-O1")
    done = node.files([program, way, "echo \"it's $0\" > restart; env -0 | tr '\\0\\n' '\\n '"])
    assert node.kept() == {1: "it's sh\n"} and done.stderr == ""
    names = {line.split("=")[0] for line in done.stdout.splitlines()}
    ours = {"LD_PRELOAD", *(f"MAINSTAY_FILES_{name}" for name in ("STAGE", "MATCH", "EXCLUDE", "OPTIONS", "COMMAND"))}
    # The shell adds variables of its own.
    assert ours <= names and names - ours <= {"PWD", "OLDPWD", "SHLVL", "_"}, done


def test_other_preloads_and_variables_of_the_program_stay(node):
    other = "/lib/x86_64-linux-gnu/libm.so.6"
    done = node.files(["env", "-i", f"LD_PRELOAD={other}", "A=1", "sh", "-c", f"{WRITE}; echo $LD_PRELOAD $A"])
    assert node.kept() == {1: "new\n"}
    assert done.stdout.endswith(f"/libmainstay_files.so:{other} 1\n"), done


def test_a_program_can_be_left_out_by_an_empty_variable(node):
    """The library is not even loaded: some programs do not run with it."""
    done = node.files(["env", "-i", "MAINSTAY_FILES_MATCH=", "sh", "-c", f"{WRITE}; sh -c 'echo ${{LD_PRELOAD-none}}'"])
    assert done.stdout == "none\n" and node.text() == "new\n" and not (node.folder / ".mainstay").exists()


def test_an_inner_command_keeps_its_own_patterns(node):
    inner = node.words(["sh", "-c", "echo x > other; echo y > restart"], match=["other"])
    node.files(["sh", "-c", 'unset LD_PRELOAD; "$@"', "sh", *inner])
    assert node.kept("other") == {1: "x\n"} and node.kept() == {}


# ---- Programs that no library can be loaded into ----


GO_NOTE = '__asm__(".section .note.go.buildid,\\"a\\",@note; .long 4, 4, 4; .ascii \\"Go\\\\0\\\\0abcd\\"; .previous");'


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A folder with programs that the library cannot catch."""
    folder = tmp_path_factory.mktemp("strange")
    source = folder / "one.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", folder / "static", source], check=True, timeout=LIMIT_S)
    source.write_text(f"{GO_NOTE}\nint main(void) {{ return 0; }}\n")
    subprocess.run(["cc", "-o", folder / "go", source], check=True, timeout=LIMIT_S)
    source.write_text("int main(void) { return 0; }\n")
    loader = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"
    subprocess.run(["cc", loader, "-o", folder / "musl", source], check=True, timeout=LIMIT_S)
    (folder / "short").write_bytes(b"\x7fELF\x01" + bytes(100))
    (folder / "script").write_text(f"#!{folder}/static\n")
    shutil.copy("/bin/true", folder / "set-user")
    os.chown(folder / "set-user", 65534, 65534)
    for name, mode in (("script", 0o755), ("short", 0o755), ("set-user", 0o4755)):
        os.chmod(folder / name, mode)
    return folder


STRANGE = {
    "static": ("it is linked statically", "--catch kernel"),
    "script": ("it is linked statically", "--catch kernel"),
    "go": ("it calls the system by itself, as programs in Go do", "--catch kernel"),
    "set-user": ("it runs as another user", "without `mainstay files`"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_line_names_a_program_that_cannot_be_caught_once_if_a_script_starts_it(node, strange, name):
    reason, way_out = STRANGE[name]
    done = node.files(["sh", "-c", f"for i in 1 2 3; do {strange}/{name}; done; {WRITE}; env -i {strange}/{name}"])
    lines = [line for line in done.stderr.splitlines() if str(strange) in line]
    assert len(lines) == 1 and f"{strange}/{name} is not protected: {reason}" in lines[0], done
    assert way_out.split("`")[0] in lines[0] and node.kept() == {1: "new\n"}
    assert node.files(["sh", "-c", "/bin/true; ls"]).stderr == ""


OTHER = ("it is a program for another system or of 32 bits", "Build it for this system")


@pytest.mark.parametrize("name", [*STRANGE, "musl", "short"])
def test_the_same_program_is_refused_if_the_command_starts_it(node, strange, name):
    reason, way_out = STRANGE.get(name, OTHER)
    done = node.files([strange / name], code=126)
    assert f"{strange / name} cannot be caught: {reason}" in done.stderr and way_out in done.stderr


def test_the_command_finds_a_program_in_the_path_before_it_judges_it(node, strange):
    program = "import subprocess\nfor i in range(2): subprocess.run(['static'], check=True)"
    done = node.files(program, variables={"PATH": f"/nowhere:{strange}:{os.environ['PATH']}"})
    assert done.stderr.count("static is not protected: it is linked statically") == 1, done


def test_a_file_that_posix_spawn_opens_is_named(node):
    opens = "[(os.POSIX_SPAWN_OPEN, 1, 'restart', os.O_WRONLY | os.O_CREAT, 0o644)]"
    done = node.files(f"os.waitpid(os.posix_spawn('/bin/echo', ['echo', 'x'], os.environ, file_actions={opens}), 0)")
    assert node.text() == "x\n" and "restart is not protected: posix_spawn opens it" in done.stderr, done


# ---- Long names ----


LONG = "restart" + "y" * 248
LONGER = "restart" + "y" * 247 + "z"


def test_a_file_with_the_longest_name_is_protected(node):
    for text in ("old", "new"):
        node.files(f"put('{LONG}', '{text}'); put('{LONGER}', 'other {text}')")
    assert (node.text(LONG), node.text(LONGER)) == ("new", "other new")
    files = node.status()["files"]
    assert [one["name"] for one in files] == [LONG, LONGER]
    assert all([gen["good"] for gen in one["generations"]] == [True, True] for one in files)
    node.files(f"file = os.open('{LONG}', os.O_WRONLY | os.O_TRUNC); os.write(file, b'half'); killed()", code=137)
    assert node.text(LONG) == "new" and len([*(node.folder / ".mainstay" / "torn").iterdir()]) == 1
    assert node.mainstay("files", "restore", ".", LONG) == f"./{LONG} is generation 1 now\n"
    assert (node.text(LONG), node.text(LONGER)) == ("old", "other new")
    (node.folder / LONG).unlink()
    node.mainstay("files", "restore", ".", f"{LONG}@2")
    assert node.text(LONG) == "new"


def test_a_long_name_is_renamed_and_removed_with_its_generations(node):
    done = node.files(
        f"put('{LONG}', 'new'); os.rename('{LONG}', 'restart'); os.rename('restart', '{LONGER}'); print(get('{LONGER}'))"
    )
    assert done.stdout == "new\n" and [one["name"] for one in node.status()["files"]] == [LONGER]
    node.files(f"os.unlink('{LONGER}')")
    node.mainstay("files", "verify", ".", code=3)
    assert not [*(node.folder / ".mainstay").glob("[kn]*/*")]


def test_long_names_make_a_set(node):
    stem, options = "restart" + "y" * 240, ("--set", "{}.base {}.*", "--count", "1")
    names = f"'{stem}.base', '{stem}.0'"
    node.files(f"for name in ({names}): put(name, 'old')", *options)
    node.files(f"put('{stem}.base', 'new')", *options, code=75)
    assert (node.text(f"{stem}.base"), node.text(f"{stem}.0")) == ("old", "old")
    node.files(f"for name in ({names}): put(name, 'new')", *options)
    assert (node.text(f"{stem}.base"), node.text(f"{stem}.0")) == ("new", "new")


# ---- Patterns for paths ----


@pytest.mark.parametrize("pattern, path", [
    ("out/restart*", "out/restart"), ("out/restart*", "{here}/out/restart"), ("{here}/out/restart*", "./x/..//out/./restart"),
    ("*/out/restart", "out/restart"), ("real/restart*", "out/restart"),
])  # fmt: skip
def test_a_pattern_for_a_path_holds_through_a_linked_folder(node, pattern, path):
    for name in ("real", "x"):
        (node.folder / name).mkdir()
    (node.folder / "out").symlink_to("real")
    here = str(node.folder)
    node.files(f"put({path.format(here=here)!r}, 'new')", match=[pattern.format(here=here)])
    assert (node.folder / "real" / ".mainstay").exists()


def test_a_pattern_for_a_path_holds_if_the_link_comes_later_or_stands_above(node, scratch):
    (scratch / "above").symlink_to(scratch / "run")
    above = scratch / "above"
    node.files(
        "os.mkdir('real'); os.symlink('real', 'now'); put('now/restart', '1'); put('restart', '2')",
        match=["now/restart", f"{above}/restart"],
    )
    assert (node.folder / "real" / ".mainstay").exists() and node.kept() == {1: "2"}


def test_an_excluded_path_is_left_alone_through_a_linked_folder(node):
    (node.folder / "real").mkdir()
    (node.folder / "out").symlink_to("real")
    node.files("put('out/restart', 'x'); put('real/restart.2', 'x')", "--exclude", "out/*")
    assert not (node.folder / "real" / ".mainstay").exists()


# ---- The exchange of two names ----


EXCHANGE = """
import ctypes
def exchange(one, other):
    if ctypes.CDLL(None, use_errno=True).renameat2(-100, one.encode(), -100, other.encode(), 2):
        print(ctypes.get_errno())
"""


@pytest.mark.parametrize("names", ["'restart.1', 'restart.2'", "'restart.2', 'restart.1'"])
def test_two_names_are_exchanged_with_their_generations_and_open_files(node, names):
    node.files("put('restart.1', 'one'); put('restart.2', 'two')")
    done = node.files(
        EXCHANGE + f"file = open('restart.1', 'r+'); file.write('ONE'); file.flush(); exchange({names})\n"
        "print(get('restart.1'), get('restart.2')); file.write('!'); file.close(); print(get('restart.1'), get('restart.2'))"
    )
    assert done.stdout == "two ONE\ntwo ONE!\n", done
    assert (node.text("restart.1"), node.text("restart.2")) == ("two", "ONE!")
    generations = {one["name"]: [gen["good"] for gen in one["generations"]] for one in node.status()["files"]}
    assert generations == {"restart.1": [True], "restart.2": [True, True]}
    damage(node.folder / "restart.1")
    node.end()  # a helper verifies a file once
    assert "restart.1 is damaged" in node.files("get('restart.1')", code=1).stderr


def test_two_folders_are_exchanged_with_their_open_files(node):
    program = (
        """
        for name in 'ab':
            os.mkdir(name); put(f'{name}/restart', 'old ' + name)
        one, other = open('a/restart', 'w'), open('b/restart', 'w')
        exchange('a', 'b/')
        one.write('new a'); other.write('new b'); one.close(); other.close()
        print(get('a/restart'), get('b/restart'))
        """
    ).replace("\n        ", "\n")
    assert node.files(EXCHANGE + program).stdout == "new b new a\n"
    assert [(node.folder / name / "restart").read_text() for name in "ab"] == ["new b", "new a"]


def test_a_folder_that_is_named_with_a_slash_at_its_end_takes_its_files_along(node):
    node.files(
        "os.mkdir('new'); file = open('new/restart', 'w'); os.rename('new/', 'done/'); file.write('all'); file.close()"
    )
    assert (node.folder / "done" / "restart").read_text() == "all"


def test_a_file_without_a_published_one_is_not_exchanged(node):
    """The program must take another way, as on a file system without this call."""
    node.files("put('restart.1', 'one')")
    done = node.files(EXCHANGE + "file = open('restart.2', 'w'); exchange('restart.1', 'restart.2'); file.write('two')")
    assert done.stdout == f"{errno.EINVAL}\n"
    assert (node.text("restart.1"), node.text("restart.2")) == ("one", "two")


# ---- The room in memory ----


PLACE = "os.path.basename(os.path.dirname(os.readlink(f'/proc/self/fd/{}')))"


def test_a_new_name_is_expected_to_be_as_large_as_the_last_of_its_kind(node):
    program = (
        f"""
        def begin(name):
            file = open(name, 'w')
            print(name, {PLACE.format("{file.fileno()}")})
            return file
        with begin('restart.1') as file: file.write('x' * 400_000)
        os.chmod('restart.1', 0o600)
        files = [begin(f'restart.{{number}}') for number in (2, 3, 4)]
        for file in files: file.write('x'); file.close()
        other = begin('restart.other')
        """
    ).replace("\n        ", "\n")
    done = node.files(program, "--room", "900000")
    places = dict(line.split() for line in done.stdout.splitlines())
    # The size of the first file is not known.
    assert places == {
        "restart.1": "files", "restart.2": "files", "restart.3": "files", "restart.4": "writing", "restart.other": "files",
    }  # fmt: skip
    assert [len(node.text(f"restart.{number}")) for number in (1, 2, 3, 4)] == [400_000, 1, 1, 1]


# ---- Other programs change a published file in place ----


def damage(path):
    """Flips a bit as a disk does: the times stay."""
    before = os.stat(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", ["by hand", "", "shorter"])
def test_a_file_that_another_program_has_changed_is_no_damage(node, change):
    node.files("put('restart', 'old'); put('restart', 'nearly new')")
    (node.folder / "restart").write_text(change)
    page = node.mainstay("files", "verify", ".")
    assert "changed by another program" in page and "DAMAGED" not in page
    done = node.files("print(get('restart'))", "--damaged", "fail")
    assert (
        done.stdout == change + "\n"
        and "restart was changed in place by another program, and counts as it is" in done.stderr
    )
    assert node.kept() == {1: "old"}
    done = node.files("print(get('restart'))")
    assert done.stdout == change + "\n" and done.stderr == ""
    node.files("put('restart', 'newest')")
    assert node.kept() == {1: "old", 2: "newest"}


def test_an_update_of_a_changed_file_begins_with_its_bytes(node):
    node.files("put('restart', 'first'); put('restart', 'second')")
    (node.folder / "restart").write_text("by hand")
    done = node.files("put('restart', 'BY', 'r+')")
    assert node.text() == "BY hand" and "was changed in place by another program" in done.stderr


def test_a_file_that_another_program_changes_while_an_older_one_is_on_its_way_stays(node):
    node.files("put('restart', 'old')")
    with node.faulty_helper("any:hold:0") as helper:
        with node.started("put('restart', 'new'); print('closed', flush=True); signal.pause()") as program:
            assert program.stdout.readline() == "closed\n"
            helper.meets()
        helper.process.kill()
        helper.process.wait(LIMIT_S)
    (node.folder / "restart").write_text("by hand")
    done = node.files("print(get('restart'))", code=None)
    assert node.text() == "by hand" and done.stdout == "by hand\n", done


def test_a_file_whose_time_its_program_has_set_is_still_verified(node):
    """The first good verification records the new time."""
    node.files("put('restart', 'old'); put('restart', 'new'); os.utime('restart', (1, 2))")
    assert node.mainstay("files", "verify", ".").count("good") == 2
    damage(node.folder / "restart")
    assert "DAMAGED" in node.mainstay("files", "verify", ".", code=None)
    assert node.files("print(get('restart'))").stdout == "old\n"


def test_a_file_that_is_not_protected_is_no_damage_later(node):
    """The helper cannot make a new generation, so the program writes into the published file."""
    node.files("put('restart', 'old')")
    writing = node.folder / ".mainstay" / "writing"
    writing.rmdir()
    writing.write_text("in the way")
    done = node.files("put('restart', 'new')", code=None)
    assert node.text() == "new" and "restart is not protected" in done.stderr
    writing.unlink()
    done = node.files("print(get('restart'))")
    assert (done.stdout, done.stderr) == ("new\n", "")
