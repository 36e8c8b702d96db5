"""`mainstay run --virtual`: MPI programs in C, C++ and Fortran that know nothing of Mainstay are compiled by its wrappers,
killed, and go on with other numbers of processes."""

import os
import re
import signal
import subprocess

import library
import pytest
from command import MAINSTAY, mainstay
from limits import LIMIT_S, until
from mpi import ROOT, SURVIVING
from programs import CXX_SOURCES, FORTRAN_SOURCES, SOURCES, place
from slots import build as build_in_slots
from slots import hosts
from supervised import Run, run

RANKS, STEPS, HOLD = 4, 300, 100
COMPILERS = {"c": ("mpicc", SOURCES), "cpp": ("mpicxx", CXX_SOURCES), "f90": ("mpifort", FORTRAN_SOURCES)}


@pytest.fixture(autouse=True, scope="module")
def cache():
    """Modules and host programs are compiled once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(ROOT / "target" / "tests" / "cache"))
        yield


@pytest.fixture(params=COMPILERS)
def program(request, mpi):
    return build(request.param, mpi)


def build(language, mpi):
    wrapper, folder = COMPILERS[language]
    source, made = folder / f"slots.{language}", place(mpi, f"slots-{language}")
    words = [MAINSTAY, wrapper, "-O2", "-Wall", *([f"-J{made.parent}"] if language == "f90" else []), source]
    return library.once(made, words, [source], lambda made: library.run([*words, "-o", made])) or made


def on(processes, command, mpi):
    """The words that run the command on a number of processes, or without a launcher."""
    variables = (f"{name}={value}" for name, value in mpi.variables)
    return ["env", *variables, *mpi.mpiexec(processes, command)] if processes else command


def virtual(space, *more, ranks=RANKS):
    return "--restarts", 0, "--virtual", ranks, "--space", space, *more, "--"


def result(output):
    """The line with the program's result, or None."""
    found = re.search(r"^sum .* ranks$", output, re.M)
    return found and found[0]


def compiled(command, folder):
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    return done.returncode, done.stdout, done.stderr


def kill_held(space, command, scratch, go, killed=1):
    """Runs it until it holds, saves it there, and kills it."""
    go.unlink(missing_ok=True)
    with Run(*virtual(space), *command, cwd=scratch) as running:
        running.until("^hold$")
        saved = subprocess.run([MAINSTAY, "checkpoint", space], capture_output=True, text=True, timeout=LIMIT_S)
        assert saved.returncode == 0, saved
        found = hosts(running.process.pid)
        assert len(found) == killed
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        status, output = running.end()
    assert status not in (0, 75) and not result(output), output


def test_a_killed_job_goes_on_with_another_number_of_processes(program, mpi, scratch):
    go, space = scratch / "go", scratch / "space"
    words = [program, STEPS, HOLD, go]
    go.touch()
    status, undisturbed = run(*virtual(scratch / "calm"), *words, cwd=scratch)
    assert status == 0, undisturbed
    kill_held(space, on(2, words, mpi), scratch, go, killed=2)
    go.touch()
    status, output = run(*virtual(space), *on(3, words, mpi), cwd=scratch)
    assert status == 0 and result(output) == result(undisturbed), output
    assert "hold" not in output  # the job was beyond it
    # The job has ended: the next start is a new one.
    status, output = run(*virtual(space), *words, cwd=scratch)
    assert status == 0 and "hold" in output and result(output) == result(undisturbed), output


@pytest.mark.parametrize("processes", [0, 2])
def test_a_job_without_a_launcher_goes_on(mpi, scratch, processes):
    go, space = scratch / "go", scratch / "space"
    words = [build("c", mpi), STEPS, HOLD, go]
    kill_held(space, words, scratch, go)
    go.touch()
    # Without a number, it is that of the revision.
    status, output = run("--virtual", "--space", space, "--", *on(processes, words, mpi), cwd=scratch)
    assert status == 0 and (result(output) or "").endswith(f"of {RANKS} ranks"), output


def test_a_job_is_started_again_and_saves_by_time(mpi, scratch):
    go, space = scratch / "go", scratch / "space"
    words = on(2, [build("c", mpi), STEPS, HOLD, go], mpi)
    with Run("--virtual", RANKS, "--every", "50ms", "--space", space, "--", *words, cwd=scratch) as running:
        running.until("^hold$")
        first = newest(space)
        until(lambda: newest(space) > first + 1)  # it saves while it holds
        now = newest(space)
        os.kill(hosts(running.process.pid)[0], signal.SIGKILL)
        number = int(running.until(r"mainstay: going on from revision (\d+)")[1])
        go.touch()
        status, output = running.end()
    assert status == 0 and number >= now and result(output), output


def test_a_job_can_be_traced_and_saved_early(scratch, monkeypatch):
    """Checkpoints of ranks came in pieces, so no page was saved early."""
    monkeypatch.delenv("MAINSTAY_WHEN_BUSY")
    space, program = scratch / "space", build_in_slots("state.f90")
    words = ["--virtual", RANKS, "--every", "40ms", "--space", space, "--", program, 20000]
    trace = [MAINSTAY, "trace", "--every", "5ms", "--out", scratch / "trace", "--"]
    status, _, errors = compiled([*trace, MAINSTAY, "run", *words], scratch)
    assert status == 0, errors
    gain = mainstay("oracle", scratch / "trace", "--iterations", 1, "--learn", 0)
    (traced,) = gain["traces"]
    assert traced["intervals"] > 0 and max(one["dirty_pages"] for one in traced["predictors"]) > 0, traced
    early = {"MAINSTAY_CAPTURE": "incremental", "MAINSTAY_PREDICTOR": "idle", "MAINSTAY_TICK_SECONDS": "0.005"}
    status, output = run(*words, cwd=scratch, env={**os.environ, **early})
    assert status == 0, output
    dirty = re.findall(r'"saved_early":{"dirty":(\d+)', (space / "journal").read_text())
    assert any(int(pages) > 0 for pages in dirty), dirty
    shown = subprocess.check_output([MAINSTAY, "show", "--phases", space], text=True, timeout=LIMIT_S)
    assert re.search(r"^ +pieces +number", shown, re.M), shown


def newest(space):
    listed = mainstay("ls", space)["revisions"]
    return max((one["revision"] for one in listed if one["state"] in ("newest", "complete")), default=0)


WITH_A_LIBRARY = """
#include <stdio.h>
#include <unistd.h>
double next(double);
int main(int count, char **arguments) {
  double value = 0.5;
  puts("hold"), fflush(stdout);
  while (access(arguments[count - 1], F_OK)) usleep(1000);
  for (int i = 0; i < 1000; i++) value = next(value);
  printf("sum %.17g of 1 ranks\\n", value);
}
"""


@pytest.mark.parametrize("processes", [0, 1])
def test_a_job_saves_its_libraries_if_asked(mpi, scratch, processes):
    (scratch / "main.c").write_text(WITH_A_LIBRARY)
    (scratch / "own.c").write_text("double next(double x) { return 3.7 * x * (1 - x); }\n")
    for words in ["-shared own.c -o libown.so", "-pie -fPIE main.c -o main -L. -lown -Wl,-rpath,$ORIGIN"]:
        assert compiled(["cc", "-fPIC", *words.split()], scratch) == (0, "", "")
    go, library, words = scratch / "go", scratch / "libown.so", [scratch / "main", scratch / "go"]
    for option, refused in [("--every=1h", True), ("--with-libraries", False)]:
        space = scratch / f"space{option}"
        go.unlink(missing_ok=True)
        with Run(*virtual(space, option, ranks=1), *on(processes, words, mpi), cwd=scratch) as running:
            running.until("^hold$")
            assert subprocess.run([MAINSTAY, "checkpoint", space], timeout=LIMIT_S).returncode == 0
            os.kill(hosts(running.process.pid)[0], signal.SIGKILL)
            assert running.end()[0] not in (0, 75)
        library.rename(scratch / "away")
        go.touch()
        status, output = run(*virtual(space, ranks=1), *on(processes, words, mpi), cwd=scratch)
        (scratch / "away").rename(library)
        assert (result(output) is None) == refused and (status != 0) == refused, output
        assert not refused or "libown.so: No such file" in output, output


NAMELESS = """
#include <stdio.h>
#include <unistd.h>
int main(int count, char **arguments) {
  FILE *file = tmpfile();
  fputs("kept", file), fflush(file);
  puts("hold"), fflush(stdout);
  while (access(arguments[count - 1], F_OK)) usleep(1000);
  char text[8] = "";
  rewind(file);
  printf("sum %s of 1 ranks\\n", fgets(text, sizeof text, file) ? text : "nothing");
}
"""


def test_a_file_that_never_had_a_name_comes_back(scratch):
    """Each restart was refused: such a file was opened again with the flag of a directory."""
    (scratch / "main.c").write_text(NAMELESS)
    assert compiled(["cc", "-fPIE", "-pie", "main.c", "-o", "main"], scratch) == (0, "", "")
    go, space = scratch / "go", scratch / "space"
    kill_held(space, [scratch / "main", go], scratch, go)
    go.touch()
    status, output = run(*virtual(space), scratch / "main", go, cwd=scratch)
    assert status == 0 and result(output) == "sum kept of 1 ranks", output


UPDATED = """
#include <stdio.h>
#include <unistd.h>
int main(int count, char **arguments) {
  int ends[2];
  FILE *own = fopen("own", "w+"), *log = fopen("log", "w");
  fputs("12345678", own), fflush(own);
  fputs("a line\\n", log), fflush(log);
  if (pipe(ends)) return 1;
  puts("hold"), fflush(stdout);
  while (access(arguments[count - 1], F_OK)) usleep(1000);
  for (int round = 0; round < 3; round++) {
    fputs("more\\n", log), fflush(log);
    fseek(own, round, SEEK_SET), fputs("9", own), fflush(own);
  }
}
"""


def test_files_that_a_restart_cannot_bring_back_are_named_once(scratch):
    (scratch / "main.c").write_text(UPDATED)
    assert compiled(["cc", "-fPIE", "-pie", "main.c", "-o", "main"], scratch) == (0, "", "")
    go, space = scratch / "go", scratch / "space"
    with Run(*virtual(space, ranks=1), scratch / "main", go, cwd=scratch) as running:
        running.until("^hold$")
        for _ in range(2):
            saved = subprocess.run([MAINSTAY, "checkpoint", space], capture_output=True, text=True, timeout=LIMIT_S)
            assert saved.returncode == 0, saved
        go.touch()
        status, output = running.end()
    remark = f"rank 0 overwrites bytes of {scratch / 'own'} after a checkpoint"
    assert status == 0 and output.count(remark) == output.count("overwrites") == 1, output
    assert output.count("is not saved; it is closed after a restart") == 1, output


def test_a_job_goes_on_by_itself_without_a_killed_process(scratch):
    """Its ranks go on in the other processes."""
    go, space = scratch / "go", scratch / "space"
    words = on(3, [build("c", SURVIVING), STEPS, HOLD, go], SURVIVING)
    in_job = ("--in-job", "--recovery", "shrink", "--balance", "refine:100ms")
    with Run(*virtual(space, *in_job), *words, cwd=scratch) as running:
        running.until("^hold$")
        saved = subprocess.run([MAINSTAY, "checkpoint", space], capture_output=True, text=True, timeout=LIMIT_S)
        assert saved.returncode == 0, saved
        os.kill(hosts(running.process.pid)[1], signal.SIGKILL)
        running.until("mainstay: rank .* failed; the job went on")
        go.touch()
        status, output = running.end()
    assert status == 0 and (result(output) or "").endswith(f"of {RANKS} ranks"), output


@pytest.mark.parametrize("processes", [0, 2])
def test_sigterm_saves_and_ends_the_job(mpi, scratch, processes):
    go, space = scratch / "go", scratch / "space"
    words = on(processes, [build("c", mpi), STEPS, HOLD, go], mpi)
    with Run(*virtual(space), *words, cwd=scratch) as running:
        running.until("^hold$")
        running.signal(signal.SIGTERM)
        status, output = running.end()
    assert status == 75 and "is complete" in output, output


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("code, status", [("3", 3), ("a7", 7)], ids=["returns", "aborts"])
def test_the_exit_code_is_that_of_the_program(mpi, scratch, processes, code, status):
    go = scratch / "go"
    go.touch()
    words = on(processes, [build("c", mpi), 10, 5, go, code], mpi)
    found, output = run(*virtual(scratch / "space"), *words, cwd=scratch)
    assert found == status and result(output), output
    assert ("exit status of the program is 3" in output) == (status == 3), output


def test_what_was_found_is_told_before_the_start(mpi, scratch):
    go = scratch / "go"
    go.touch()
    program = build("c", mpi)
    status, output = run(*virtual(scratch / "space", "--dry-run"), *on(2, [program], mpi), cwd=scratch)
    assert status == 0 and f"{program}: built for MPICH's ABI; 4 ranks in slots of 64 GiB" in output, output
    assert re.search(r"start 1: .*/mainstay-ranks --virtual 4 --space ", output), output
    # As many ranks as processes.
    status, output = run("--virtual", "--dry-run", "--space", "space", "--", *on(3, [program], mpi), cwd=scratch)
    assert status == 0 and "a rank for each process in slots" in output and "--virtual" not in output, output


# The flags of cc for a program that does not suit, and the message.
REFUSED = {
    "fixed": (["-no-pie"], "it has a fixed address; link it with -pie"),
    "static": (["-static-pie"], "it is linked statically"),
    "other": (["-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "-o", "libmpi.so.40"], None),
    "ompi": (
        ["-fPIE", "-pie", "-Wl,--no-as-needed", "libmpi.so.40"],
        "it was built for Open MPI; compile it with mainstay mpicc",
    ),
}


def test_a_program_that_does_not_suit_is_refused_before_the_start(mpi, scratch):
    (scratch / "main.c").write_text("int main(void) { return 0; }\n")
    for name, (flags, why) in REFUSED.items():
        status, _, errors = compiled(["cc", "main.c", "-o", name, *flags], scratch)
        assert status == 0, errors
        if why:
            refused(scratch, mpi, f"./{name}", f"/{name}: {why}")
    (scratch / "script").write_text("#!/bin/sh\n")
    refused(scratch, mpi, "./script", "it is a script; name its interpreter")
    refused(scratch, mpi, "./missing", "./missing: no such program")
    status, output = run("--virtual", 2, "--", "./fixed", cwd=scratch)
    assert status == 2 and "--space" in output, output
    status, output = run(*virtual("one", "--space", "two"), "./fixed", cwd=scratch)
    assert status == 2 and "give --space once" in output, output
    for balance in "refine", "refine:5", "best:5m":
        status, output = run(*virtual("space", f"--balance={balance}"), "./fixed", cwd=scratch)
        assert status == 2 and "--balance <STRATEGY:TIME>" in output, output
    assert not (scratch / "space").exists()


def test_a_thread_is_refused_by_its_message(scratch):
    source = "#include <pthread.h>\nstatic void *f(void *x) { return x; }\n"
    source += "int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) ? 9 : 0; }\n"
    (scratch / "main.c").write_text(source)
    assert compiled(["cc", "-fPIE", "-pie", "-pthread", "main.c", "-o", "main"], scratch) == (0, "", "")
    status, output = run("--virtual", "--space", "space", "--", "./main", cwd=scratch)
    assert status == 9 and "rank 0: it tried to start a thread" in output and "start 2" not in output, output


def test_mpi4py_finds_the_library_of_ranks(mpi, scratch):
    """mpi4py first tries a library beside its interpreter. If it found another MPI there, that one started threads."""
    # One write for the whole line: another rank may run between two writes.
    words = "from mpi4py import MPI; print(f'{MPI.Get_library_version()} {MPI.COMM_WORLD.allreduce(1)}\\n', end='')"
    status, output = run(*virtual(scratch / "space"), mpi.command("python"), "-c", words, cwd=scratch)
    assert status == 0 and output.count("Mainstay, ranks in slots, MPICH's ABI 4") == RANKS, output


def test_another_job_in_the_space_is_refused(mpi, scratch):
    """The refusal comes from the host, after the start: it is not started again."""
    go, words = scratch / "go", [build("c", mpi), STEPS, HOLD, scratch / "go"]
    kill_held(scratch / "space", words, scratch, go)
    for processes in (0, 2):
        more = ("--virtual", RANKS + 1, "--space", scratch / "space", "--")
        status, output = run(*more, *on(processes, words, mpi), cwd=scratch)
        assert status == 2 and "go on with --virtual 4, or name another space" in output, output
        assert "start 2" not in output, output


def refused(scratch, mpi, program, why):
    for processes in (0, 2):
        status, output = run(*virtual("space"), *on(processes, [program], mpi), cwd=scratch)
        assert status == 2 and why in output and "start 1" not in output, output


def test_a_launcher_without_mpicc_is_told_by_its_message(scratch, monkeypatch):
    launcher = scratch / "bin" / "mpiexec"
    launcher.parent.mkdir()
    launcher.write_text("#!/bin/sh\necho HYDRA\n")
    launcher.chmod(0o755)
    (scratch / "main.c").write_text("int main(void) { return 0; }\n")
    assert compiled(["cc", "-fPIE", "-pie", "main.c", "-o", "main"], scratch)[0] == 0
    monkeypatch.setenv("PATH", "/nothing")
    monkeypatch.delenv("MPICC", raising=False)
    status, output = run(*virtual("space"), launcher, "-n", 2, "./main", cwd=scratch)
    assert status == 2 and "there is no mpicc beside" in output and "MPICC" in output, output


def test_the_wrappers_call_the_users_compiler(scratch, monkeypatch):
    (scratch / "main.c").write_text("#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }\n")
    assert compiled([MAINSTAY, "mpicc", "-Wall", "-Werror", "main.c", "-o", "main"], scratch) == (0, "", "")
    dynamic = subprocess.check_output(["readelf", "-hd", scratch / "main"], text=True, timeout=LIMIT_S)
    assert "libmpi.so.12" in dynamic and "PATH" not in dynamic and "Type:" in dynamic and "DYN" in dynamic
    # An object, and a library.
    assert compiled([MAINSTAY, "mpicc", "-c", "main.c"], scratch) == (0, "", "") and (scratch / "main.o").exists()
    assert compiled([MAINSTAY, "mpicc", "-shared", "-fPIC", "main.c", "-o", "main.so"], scratch) == (0, "", "")
    # The compiler's own answers, and its exit code.
    for option in "--version", "--help", "-dumpmachine":
        assert compiled([MAINSTAY, "mpicc", option], scratch)[1] == compiled(["cc", option], scratch)[1]
    assert compiled([MAINSTAY, "mpicc", "-E", "main.c"], scratch)[1].count("MPI_Init") > 1
    assert compiled([MAINSTAY, "mpicc", "missing.c"], scratch)[0] == compiled(["cc", "missing.c"], scratch)[0] != 0
    # The compiler in CC, but not this wrapper, as make passes it on.
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    status, _, errors = compiled([MAINSTAY, "mpicc", "main.c"], scratch)
    assert status == 127 and "no-such-compiler cannot be started" in errors
    assert compiled([MAINSTAY, "mpicc", "-show"], scratch)[1].startswith("no-such-compiler -m64 -fPIE -I")
    monkeypatch.setenv("CC", f"{MAINSTAY} mpicc")
    shown = compiled([MAINSTAY, "mpicc", "-show"], scratch)[1]
    assert re.fullmatch(r"cc -fPIE -I\S+ -pie -L\S+ -lmpi .*\n", shown), shown


def test_modules_of_fortran_are_compiled_once(scratch, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(scratch / "cache"))
    source = FORTRAN_SOURCES / "slots.f90"
    compile_it = [MAINSTAY, "mpifort", source, "-o", scratch / "slots"]
    # Two at once, as make -j starts them. Each has a folder for the module of the program itself.
    folders = [scratch / "one", scratch / "two"]
    for folder in folders:
        folder.mkdir()
    both = [subprocess.Popen([*map(str, compile_it[:-1]), folder / "slots"], cwd=folder) for folder in folders]
    assert [one.wait(LIMIT_S) for one in both] == [0, 0]
    (folder,) = (scratch / "cache" / "mainstay").iterdir()
    assert {"mpi.mod", "mpi_f08.mod", "libmainstay_modules.a"} <= {path.name for path in folder.iterdir()}
    made = folder.stat().st_mtime_ns
    assert compiled([*compile_it, "-c", "-o", scratch / "slots.o"], scratch)[0] == 0
    assert folder.stat().st_mtime_ns == made
    # It cannot be written.
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    status, _, errors = compiled(compile_it, scratch)
    assert status == 4 and "XDG_CACHE_HOME" in errors, errors
