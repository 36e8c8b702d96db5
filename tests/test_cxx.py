"""The C++ header: every type and call, its exceptions, the code that it refuses to compile, and a job that comes
back."""

import re
import shutil
import subprocess

import library
import pytest
from command import mainstay
from jobs import comes_back, run
from limits import LIMIT_S
from programs import BUILT, CXX_SOURCES, build_cxx
from ways import rarely

STRICT = ["-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wold-style-cast", "-Wnull-dereference"]


def compilers():
    return [name for name in ("c++", "clang++") if shutil.which(name)]


def compile_cxx(compiler, standard, source, *more):
    """The exit status and the output of the compiler, without MPI."""
    command = [compiler, f"-std={standard}", *library.WARNINGS, *STRICT, *library.HEADERS, source, *more]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S)
    return done.returncode, done.stderr


@pytest.mark.parametrize("standard", ["c++17", *rarely("c++20")])
@pytest.mark.parametrize("compiler", compilers())
def test_every_type_and_call(scratch, compiler, standard):
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / f"session-{standard}-{compiler}"
    status, said = compile_cxx(compiler, standard, CXX_SOURCES / "session.cpp", "-o", program, *library.link_flags())
    assert status == 0 and not said, said
    command = [program, scratch / "space", scratch / "output"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr

    items = mainstay("show", scratch / "space")["revision"]["shard_list"][0]["items"]
    regions = {item["name"]: (item["element_type"], item["shape"]) for item in items}
    for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64", "c64", "c128"):
        assert regions.pop(name) == (name, [])
    assert regions == {
        "flag": ("bool", []), "byte": ("bytes", []), "kind": ("i16", []), "one": ("bytes", [32]),
        "plain": ("i32", [2, 3]), "grid": ("f32", [3, 2]), "vector": ("f64", [1000]), "points": ("f64", [2, 3]),
        "particles": ("bytes", [5, 32]), "empty": ("i32", [0]), "block": ("u32", [4, 5]), "text": ("bytes", [8]),
        "span": ("f64", [10]),
    }  # fmt: skip
    assert mainstay("ls", scratch / "space-boxes")["holds"] == [], "a reader left its hold"


def test_what_ends_a_run_is_told_as_it_is(scratch):
    """An error of the layout became an error of a region of Mainstay's. After a begun checkpoint that region was in
    freed memory."""
    done = subprocess.run(
        [build_cxx("steps.cpp", "steps-cxx"), scratch / "space"], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr


# Each type has one case, since the compiler tells of a type once.
REFUSED = [
    ('std::vector<bool> v(8); s.protect("v", v);', "has no bytes of its own"),
    ('std::string v; s.protect("v", v);', "only memory that memcpy copies"),
    ('int x = 0, *v = &x; s.protect("v", v);', "an address means nothing"),
    ('const int v = 1; s.protect("v", v);', "a restore writes"),
    ('std::vector<std::vector<int>> v(2); s.protect("v", v);', "only memory that memcpy copies"),
    ('int v[2] = {}; s.protect("v", v, {1.5});', "a shape is made of whole numbers"),
    ('std::vector<int *> v; s.write("v", 0, v);', "an address means nothing"),
    ('std::vector<std::string> v; s.read("v", 0, v);', "only elements that memcpy copies"),
    ('const std::vector<int> v(2); s.read("v", 0, v);', "const"),
    ("auto t = s;", "deleted"),
    ('int v[2] = {}; s.follow("v", &v[0]);', "error"),  # no variable that could point elsewhere
    ('int v[2] = {}; s.follow("v", v);', "error"),
    ('std::vector<long *> v; s.move("v", v);', "an address means nothing"),
    ('s.protect("v", 1);', "error"),
]
UNPACKED = [
    ("std::vector<object *> m; int n = 0;", "an address means nothing"),
    ("object *m[2] = {}; int n = 0;", "an address means nothing"),
    ("std::array<object *, 2> m; int n = 0;", "an address means nothing"),
    ("std::vector<std::array<object *, 2>> m; int n = 0;", "an address means nothing"),
]


def errors_of(scratch, head, functions):
    """The compiler's errors about each of the functions, in one compilation. Each is the first line of a file of its own."""
    source = scratch / "refused.cpp"
    source.write_text(head + "".join(f'#line 1 "case{at}."\n{function}\n' for at, function in enumerate(functions)))
    status, said = compile_cxx("c++", "c++17", source, "-fsyntax-only", "-fmax-errors=0")
    # The lines before an error say where the code is that led to it.
    errors = re.findall(r"(?:.*\n)*?.*\berror: .*\n", said)
    found = [[error for error in errors if f"case{at}." in error] for at in range(len(functions))]
    assert (status == 0) == (not errors), said
    return found


def test_what_cannot_be_protected_does_not_compile(scratch):
    head = "#include <mainstay.hpp>\n"
    codes = ["", *(code for code, _ in REFUSED)]
    functions = [f"void f{at}(mainstay::session &s) {{ (void)s; {code} }}" for at, code in enumerate(codes)]
    good, *bad = errors_of(scratch, head, functions)
    assert not good
    for (code, words), errors in zip(REFUSED, bad, strict=True):
        assert any(words in error for error in errors), (code, errors)


def test_what_cannot_be_packed_does_not_compile(scratch):
    """Vectors and arrays of addresses used to be sent to other ranks."""
    members = ["int m[2][3] = {}; std::array<std::vector<int>, 2> n;", *(member for member, _ in UNPACKED)]
    functions = [
        f"namespace n{at} {{ struct object {{ {member} void pup(mainstay::pup &p) {{ p | m | n; }} }}; "
        "void f(object &o) { auto p = mainstay::pup::sizing(); o.pup(p); } }"
        for at, member in enumerate(members)
    ]
    good, *bad = errors_of(scratch, "#include <array>\n#include <mainstay_objects.hpp>\n", functions)
    assert not good
    for (member, words), errors in zip(UNPACKED, bad, strict=True):
        assert any(words in error for error in errors), (member, errors)


@pytest.mark.campaign
def test_a_job_comes_back(mpi, scratch):
    comes_back(build_cxx("adopt.cpp", "adopt-cxx", mpi=mpi), scratch, mpi)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        *rarely({"PER": "node"}, {"STAGE": "direct"}, {"MEMORY": "auto", "PFS_EVERY": 1}, {"RECOVERY": "shrink"}),
    ],
    ids=lambda settings: "+".join(settings) or "defaults",
)
def test_an_exception_of_one_rank_does_not_wait_for_the_others(mpi, scratch, settings, monkeypatch):
    """The destructor closed, which is collective: the rank waited there, and the others in MPI, for ever."""
    for name, value in settings.items():
        monkeypatch.setenv(f"MAINSTAY_{name}", str(value))
    program = build_cxx("leaves.cpp", "leaves-cxx", mpi=mpi)
    for at, (what, caught) in enumerate([("throw", "caught alone"), ("leave", "caught left")]):
        status, output = run(3, [program, scratch / "space", what], scratch, mpi=mpi)
        assert status != 0 and f"restored {2 * at}, {2 * at}" in output and caught in output, output
    # All ranks catch the same exception, and end in order.
    status, output = run(3, [program, scratch / "space", "both"], scratch, mpi=mpi)
    assert status == 0 and "restored 4, 4" in output and output.count("caught all") == 3, output
    status, output = run(3, [program, scratch / "space", "nothing"], scratch, mpi=mpi)
    assert status == 0 and "restored 6, 6" in output, output
