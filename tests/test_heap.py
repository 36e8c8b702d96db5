"""The heap: programs full of pointers, in C, C++, and Fortran, come back with everything that they point to."""

import json
import re
import subprocess

import library
import pytest
from limits import LIMIT_S
from mpi import BUILT, OPENMPI, ROOT
from programs import FORTRAN_SOURCES, build_c, build_cxx, build_fortran, place

MAINSTAY = BUILT / "mainstay"
NOT_PIE = ("-fno-pie", "-no-pie")
LISTS = ROOT / "examples" / "pointers" / "lists.c"


def said(*command, cwd=None, status=0):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S, cwd=cwd)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def shown(space):
    told = json.loads(said(MAINSTAY, "show", "--json", space))
    return [item["name"] for item in told["revision"]["shard_list"][0]["items"]]


def test_lists_of_c_come_back(scratch):
    """A fresh process makes none of the calls that have made them."""
    program = build_c([LISTS], "lists", *NOT_PIE)
    calm, restarted = scratch / "calm", scratch / "restarted"
    calm.mkdir()
    restarted.mkdir()
    whole = said(program, 300, cwd=calm)
    for steps in (40, 90, 125):
        assert f"step {steps}: " in said(program, steps, cwd=restarted)
    assert said(program, 300, cwd=restarted) == whole
    assert re.fullmatch(r"step 300: \d{4,} bodies, sum [\d.]+\n", whole), whole
    items = shown(restarted / "space")
    assert {"globals/cells", "globals/step", "globals/random_state"} <= set(items), items
    assert [item for item in items if item.startswith("heap/of-32/4")], items


PROGRAMS = {
    "cxx": lambda: build_cxx("heap.cpp", "heap-cxx", *NOT_PIE),
    "fortran": lambda: build_fortran(FORTRAN_SOURCES / "heap.f90", "heap-fortran", OPENMPI, link=[*library.link_flags(), "-no-pie"], checked=["-fno-pie"]),
}  # fmt: skip


@pytest.mark.parametrize("language", PROGRAMS)
def test_they_come_back_in(language, scratch):
    program = PROGRAMS[language]()
    whole = said(program, scratch / "calm", 97)
    said(program, scratch / "space", 43)
    # Steps after the last checkpoint are done again.
    said(program, scratch / "space", 58)
    assert said(program, scratch / "space", 97) == whole.replace("from step 0", "from step 55")


def test_what_did_not_come_from_the_heap_is_not_freed(scratch):
    source = scratch / "odd.c"
    source.write_text(
        '#include "mainstay.h"\n#include <stdlib.h>\n#include <string.h>\n#include <stdint.h>\n'
        "int main(int argc, char **argv) {\n  char *one = mainstay_heap_malloc(100), *large;\n"
        "  if (mainstay_heap_calloc(SIZE_MAX, 2) || mainstay_heap_malloc(SIZE_MAX)) return 1;\n"
        "  if (mainstay_heap_aligned_alloc(48, 1) || (uintptr_t)mainstay_heap_aligned_alloc(4096, 10) % 4096) return 2;\n"
        '  strcpy(one, "what it holds");\n  large = mainstay_heap_realloc(one, 3000000);\n'
        '  if (strcmp(large, "what it holds") || mainstay_heap_malloc(100) != one) return 3;\n'
        "  mainstay_heap_free(NULL), mainstay_heap_free(large);\n  if (argc < 2) return 0;\n"
        "  mainstay_heap_free(*argv[1] == 't' ? large : malloc(8));\n  return 4;\n}\n"
    )
    program = place(OPENMPI, "heap-odd")
    library.build(program, [source], "-O0")
    said(program)
    for odd in ("twice", "foreign"):
        assert "is no allocation of the heap; free" in said(program, odd, status=-6)
