"""Programs with their state in global variables, .data and .bss, killed and restarted with each MPI: position
independent or not, stripped, with Mainstay linked in. Data of one run alone stays; another program is refused."""

import json
import re
import shutil
import subprocess
from functools import partial

import library
import pytest
from jobs import run
from limits import LIMIT_S
from mpi import BUILT, MPICH, OPENMPI, ROOT
from programs import FORTRAN_SOURCES, SOURCES, build_c, build_cxx, build_fortran, place
from ways import rarely

MAINSTAY = BUILT / "mainstay"
STEPS = 23
DEATH = 18
NOT_PIE = ("-fno-pie", "-no-pie")
# For the campaign.
OTHERWISE_LINKED = [
    pytest.param(flags, marks=pytest.mark.campaign)
    for flags in (("-s",), ("-Wl,-z,now", "-Wl,-z,relro"), ("-Wl,-z,norelro",))
]
INSIDE = ("-lpthread", "-ldl", "-lm", "-lgcc_s")  # what libmainstay.a needs


def comes_back(program, scratch, mpi, *settings):
    """The program is killed between two checkpoints, started again, and ends undisturbed. Returns the output of the
    second start."""
    run = partial(run_with, settings)
    status, calm = run(2, [program, scratch / "calm", STEPS], scratch, mpi=mpi)
    assert status == 0 and calm.startswith("from step 0\n"), calm
    status, killed = run(2, [program, scratch / "space", STEPS, DEATH], scratch, mpi=mpi)
    assert status != 0 and "sum" not in killed and "WRONG" not in killed, killed
    status, again = run(2, [program, scratch / "space", STEPS], scratch, mpi=mpi)
    assert status == 0 and "WRONG" not in again, again
    # The checkpoint of step 15 may have been under way.
    assert re.search(r"^from step (10|15)$", again, re.M), again
    assert sums(again) == sums(calm) != []
    return again


def run_with(settings, ranks, command, scratch, **more):
    return run(ranks, ["env", *settings, *command] if settings else command, scratch, **more)


def sums(said):
    return sorted(re.findall(r"sum [\w .+-]+", said))


@pytest.mark.parametrize("flags", [(), NOT_PIE, *OTHERWISE_LINKED], ids=" ".join)
def test_variables_of_c_come_back(flags, scratch):
    program = build_c(["globals.c"], f"globals{''.join(flags)}".replace(",", ""), *flags)
    said = comes_back(program, scratch, OPENMPI)
    assert said.splitlines()[-1] == "done" and "mainstay:" not in said, said
    shown = json.loads(subprocess.check_output([MAINSTAY, "show", "--json", scratch / "space"]))
    items = {item["name"]: item["bytes"] for item in shown["revision"]["shard_list"][0]["items"]}
    assert {"globals/addresses", "heap", "named"} <= set(items) and "globals/named" not in items, items
    if "-s" in flags:
        assert {"globals/data", "globals/bss"} <= set(items), items
        return
    wanted = {"globals/one": 8 * 20001, "globals/step": 8, "globals/history": 8 * 64, "globals/odd_after": 5}
    assert wanted.items() <= items.items() and "globals/world" not in items, items
    newest = shown["revision"]["revision"]
    differs = subprocess.check_output([MAINSTAY, "diff", scratch / "space", str(newest - 1), str(newest)], text=True)
    assert "globals/step" in differs and "globals/fixed" not in differs, differs


@pytest.mark.campaign
@pytest.mark.parametrize("track", ["pages", *rarely("hashes")])
def test_what_changed_of_them_is_saved_and_all_comes_back(track, scratch):
    """The second start restores a later revision: it leads to older ones, and to pages that were not written since."""
    settings = ["MAINSTAY_CAPTURE=incremental", f"MAINSTAY_TRACK={track}", "MAINSTAY_AUDIT=2"]
    said = comes_back(build_c(["globals.c"], "globals"), scratch, OPENMPI, *settings)
    assert said.splitlines()[-1] == "done" and "mainstay:" not in said, said
    shown = json.loads(subprocess.check_output([MAINSTAY, "show", "--json", scratch / "space"]))
    assert shown["revision"]["shard_list"][0]["profile"]["found_by"] == track, shown


@pytest.mark.campaign
@pytest.mark.parametrize("flags", [(), NOT_PIE], ids=" ".join)
def test_they_come_back_with_mpich(flags, scratch):
    comes_back(build_c(["globals.c"], f"globals{''.join(flags)}", *flags, mpi=MPICH), scratch, MPICH)


def inside(name, *flags):
    """The program with Mainstay linked into it."""
    program = place(OPENMPI, name)
    archive = BUILT / "libmainstay.a"
    command = [
        OPENMPI.command("mpicc"), "-std=c11", "-O2", *library.HEADERS, SOURCES / "globals.c", "-o", program, archive, *INSIDE,
        *flags,
    ]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, timeout=LIMIT_S)
    return program


@pytest.mark.campaign
def test_they_come_back_with_mainstay_linked_in(scratch):
    comes_back(inside("globals-inside"), scratch, OPENMPI)


def refused(program, scratch, ranks=1):
    status, said = run(ranks, [program, scratch / "space", STEPS], scratch)
    assert status != 0 and "from step" not in said, said
    return said


def test_without_symbols_what_is_linked_in_cannot_be_told_apart(scratch):
    said = refused(inside("globals-inside-stripped", "-s"), scratch)
    assert "protect_globals: INVALID_ARGUMENT" in said and "link libmainstay.so, or do not strip it" in said, said


@pytest.mark.parametrize(
    "flags", [(), pytest.param(("-Wl,--build-id=none",), marks=pytest.mark.campaign)], ids=" ".join
)
def test_another_program_is_refused(flags, scratch):
    """It has the same size, but a number in it differs."""
    program = build_c(["globals.c"], f"globals-first{len(flags)}", *flags)
    status, said = run(2, [program, scratch / "space", 7], scratch)
    assert status == 0, said
    if not flags:
        stripped = scratch / "stripped"
        subprocess.run(["strip", "-o", stripped, program], check=True, timeout=LIMIT_S)
        said = refused(stripped, scratch, ranks=2)
        assert "restore: OTHER_PROGRAM" in said and ", stripped)" in said, said
    other = build_c(["globals.c"], f"globals-other{len(flags)}", "-DFIRST=2.0", *flags)
    said = refused(other, scratch, ranks=2)
    assert "restore: OTHER_PROGRAM" in said and "revision 1 holds the globals of another program" in said, said
    assert ("hash " if flags else "build id ") in said, said
    # The same program goes on from another path.
    moved = scratch / "moved"
    shutil.copy(program, moved)
    status, said = run(2, [moved, scratch / "space", 8], scratch)
    assert status == 0 and "from step 5" in said, said


def test_variables_of_one_rank_are_not_given_to_two(scratch):
    """Two ranks both got the variables of rank 0 of a job with one rank."""
    program = build_c(["globals.c"], "globals")
    status, said = run(1, [program, scratch / "space", 7], scratch)
    assert status == 0, said
    for program in (program, build_c(["globals.c"], "globals-other0", "-DFIRST=2.0")):
        said = refused(program, scratch, ranks=2)
        assert "restore: RANK_COUNT" in said and "come back to as many ranks as saved" in said, said


# The program's action after `array` is protected; whether its globals are protected before or after; and the refused
# call.
MOVES = {
    "follows": ("mainstay_follow(session, \"array\", (void **)&now) || GLOBALS", "globals"),
    "is followed later": ("GLOBALS || mainstay_follow(session, \"array\", (void **)&now)", "checkpoint"),
    "moves to another": ("GLOBALS || mainstay_move(session, \"array\", next, 0, NULL)", "checkpoint"),
    "moves out": ("GLOBALS || mainstay_move(session, \"array\", heap, 0, NULL)", "checkpoint"),
    "moves in": ("mainstay_move(session, \"array\", heap, 0, NULL) || GLOBALS || mainstay_move(session, \"array\", now, 0, NULL)",
                 None),
    "points in": ("(now = heap, mainstay_move(session, \"array\", heap, 0, NULL)) || mainstay_follow(session, \"array\", (void **)&now) || "
                  "GLOBALS || (now = next, 0)", "checkpoint"),
    "stays": ("GLOBALS", None),
}  # fmt: skip


@pytest.mark.parametrize("move", ["moves to another", *rarely(*(move for move in MOVES if move != "moves to another"))])
def test_a_region_that_moves_among_the_variables_is_refused(move, scratch):
    """A pointer led to one of two arrays. The choice was saved with the pointer and
    with the region, and the two restores differed."""
    calls, wrong = MOVES[move]
    source = scratch / "moves.c"
    source.write_text(
        '#include "mainstay_mpi.h"\n#include <stdio.h>\n#include <stdlib.h>\n'
        "static double one[99], two[99], *now = one, *next = two;\n"
        "#define GLOBALS globals(session)\n"
        "static int globals(mainstay_session *session) {\n  int status = mainstay_protect_globals(session);\n"
        '  if (status) printf("globals: %s\\n", mainstay_error_message());\n  return status;\n}\n'
        "int main(int argc, char **argv) {\n  mainstay_session *session;\n  double *heap = calloc(99, 8);\n  int status;\n"
        "  MPI_Init(&argc, &argv);\n"
        "  if (mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session)) return 1;\n"
        '  if (mainstay_protect(session, "array", now, 99 * 8)) return 2;\n'
        f"  if (!({calls})) {{\n    status = mainstay_checkpoint(session, NULL);\n"
        '    if (status) printf("checkpoint: %s\\n", mainstay_error_message());\n    else puts("saved");\n  }\n'
        "  (void)next, (void)heap;\n  mainstay_close(session);\n  MPI_Finalize();\n  return 0;\n}\n"
    )
    program = scratch / "moves"
    library.build(program, [source], "-O1")
    status, said = run(1, [program, scratch / "space"], scratch)
    assert status == 0, said
    if wrong:
        assert f'{wrong}: memory of "array"' in said and "do not protect it by a name of its own" in said, said
    assert ("saved" in said) == (wrong is None), said


@pytest.mark.campaign
def test_pointers_of_the_run_before_are_told(scratch):
    """MPI_COMM_WORLD of Open MPI is an address in the program; this program does not exclude it."""
    program = place(OPENMPI, "globals-stale")
    source = scratch / "stale.c"
    source.write_text(
        '#include "mainstay_mpi.h"\n#include <stdio.h>\nstatic double field[9], *stale;\n'
        "int main(int argc, char **argv) {\n  mainstay_session *session;\n  mainstay_restored found = {0};\n"
        "  MPI_Init(&argc, &argv);\n"
        "  if (mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session) || mainstay_protect_globals(session)) return 1;\n"
        "  if (mainstay_restore(session, &found)) return 1;\n"
        "  if (!found.revision) stale = field + 4, mainstay_checkpoint(session, NULL);\n"
        '  printf("%s %.0f\\n", stale ? "set" : "null", field[4]);\n'
        "  mainstay_close(session);\n  MPI_Finalize();\n  return 0;\n}\n"
    )
    library.build(program, [source], "-O0")
    for told in (False, True):
        status, said = run(1, [program, scratch / "space"], scratch)
        assert status == 0 and "set 0" in said, said
        assert ("1 restored variable(s) point into this program" in said and "the first in stale:" in said) == told
    program = place(OPENMPI, "globals-not-stale")
    library.build(program, [source], "-O0", *NOT_PIE)
    for _ in range(2):
        status, said = run(1, [program, scratch / "other"], scratch)
        assert status == 0 and said == "set 0", said


def test_variables_of_fortran_come_back(mpi, scratch):
    # The standard declares common blocks obsolescent, but programs use them.
    program = build_fortran(FORTRAN_SOURCES / "globals.f90", "globals-fortran", mpi, "-std=gnu")
    comes_back(program, scratch, mpi)


@pytest.mark.campaign
def test_variables_of_fortran_come_back_where_all_is_checked(scratch):
    """gfortran's mark of a running procedure is a variable, too, and was restored: the next checkpoint was refused as a
    recursive call."""
    program = build_fortran(
        FORTRAN_SOURCES / "globals.f90", "globals-fortran-checked", OPENMPI, "-std=gnu", checked=["-O1", "-fcheck=all"]
    )
    comes_back(program, scratch, OPENMPI)


@pytest.mark.campaign
@pytest.mark.parametrize("language", ["c", "fortran"])
def test_the_program_of_the_guide_goes_on(language, scratch, monkeypatch):
    monkeypatch.chdir(scratch)
    source = ROOT / "examples" / "globals" / "wave.c"
    if language == "c":
        program = build_c([source], "wave")
    else:
        program = build_fortran(source.with_suffix(".f90"), "wave-fortran", OPENMPI, "-std=gnu")
    status, first = run(2, [program], scratch)
    assert status == 0 and re.fullmatch(r"step 1000: the most was [\d.]+, at step \d+", first), first
    status, second = run(2, [program], scratch)
    assert (status, second) == (0, f"restored revision 10 at step 1000\n{first}")


def test_variables_of_cxx_come_back(scratch):
    program = build_cxx("globals.cpp", "globals-cxx")
    for what in ("save", "restore"):
        done = subprocess.run([program, scratch / "space", what], capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr


def test_a_static_program_is_refused(scratch):
    """The state of the C library would be restored with the program's variables."""
    program, source = scratch / "static", scratch / "static.c"
    source.write_text(
        '#include "mainstay.h"\n#include <stdio.h>\nint main(int argc, char **argv) {\n  mainstay_session *session;\n'
        "  if (argc < 2 || mainstay_open_solo(argv[1], NULL, &session)) return 1;\n"
        "  mainstay_status status = mainstay_protect_globals(session);\n"
        '  printf("%s %s\\n", mainstay_status_name(status), mainstay_error_message());\n'
        "  return mainstay_close(session);\n}\n"
    )
    command = ["gcc", "-static", *library.HEADERS, source, "-o", program, BUILT / "libmainstay.a", "-lm"]
    subprocess.run(list(map(str, command)), check=True, timeout=LIMIT_S, stderr=subprocess.DEVNULL)
    done = subprocess.run([program, scratch / "space"], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0 and "INVALID_ARGUMENT" in done.stdout and "linked statically" in done.stdout, done
