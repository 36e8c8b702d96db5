"""Writes MPI for Fortran, for programs whose ranks lie in slots: capi/ranks/fortran/generated.

    tools/ranks_fortran.py [--check]

Functions and constants come from capi/ranks/include/mpi.h. capi/ranks/fortran/arguments.toml says the rest, such as the
arguments that are logical. The script writes the functions in C that Fortran calls, mpif.h, and the modules mpi and
mpi_f08. With --check it changes nothing, and fails if a file would change.
"""

import re
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "capi" / "ranks" / "include"
FOLDER = ROOT / "capi" / "ranks" / "fortran"
WRITTEN = FOLDER / "generated"
HANDLES = ("Comm", "Datatype", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request", "Session", "Win")
INTEGERS = ("int", "MPI_Aint", "MPI_Count", "MPI_Offset", "MPI_Fint")


@dataclass(frozen=True)
class Argument:
    """An argument: its declaration in C and its nature in Fortran."""

    name: str  # in C
    type: str  # in C, without const and pointer: "int", "MPI_Comm", "void", "char", "MPI_Status"
    declared: str  # in C, as a declaration
    # choice, address, baseptr, text, texts, status, logical, handle, integer, function, attribute, state
    kind: str
    intent: str  # in, out, inout
    is_pointer: bool
    is_array: bool
    rank2: int = 0  # of an array of arrays: the length of the inner one

    def renamed(self, table):
        return table["renamed"].get(self.name, self.name)


@dataclass(frozen=True)
class Function:
    name: str  # without MPI_
    result: str  # in C
    arguments: tuple
    header: str  # the file that declares it

    def has(self, kind):
        return any(argument.kind == kind for argument in self.arguments)


def fits(patterns, name):
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def keeps_buffer(table, function):
    """Whether the library uses the function's buffer after the call."""
    has_request = any(argument.name == "request" and argument.is_pointer for argument in function.arguments)
    return has_request or fits(table["keep_buffer"], function.name)


def kind_of(table, function, name, base, pointers):
    """The nature of an argument in Fortran."""
    if base.endswith(("_function", "_function_c", "_fn")):
        return "function"
    if base == "void":
        special = {"attribute_val": "attribute", "extra_state": "state", "baseptr": "baseptr"}
        is_address = fits(table["address_of_buffer"], function)
        return special.get(name) or ("baseptr" if name == "buffer_addr" else "address" if is_address else "choice")
    if base == "char":
        return "text" if pointers == 1 else "texts"
    if base in ("MPI_Status", "MPI_F08_status"):
        return "status"
    if base == "int" and name in table["logical"]:
        return "logical"
    if base.removeprefix("MPI_") in HANDLES:
        return "handle"
    if base in INTEGERS:
        return "integer"
    raise SystemExit(f"MPI_{function}: argument {name} has the unknown type {base}")


def argument(table, function, declared):
    array = re.search(r"\[\](?:\[(\d+)\])?$", declared)
    plain = declared[: array.start()] if array else declared
    name = re.search(r"\w+$", plain)[0]
    before = plain[: -len(name)].strip()
    base = before.replace("*", " ").removeprefix("const ").strip()
    pointers = before.count("*") + bool(array)
    kind = kind_of(table, function, name, base, pointers)
    full = f"{function}.{name}"
    writes = pointers and not before.startswith("const ") and kind != "function"
    intent = "out" if writes else "in"
    if fits(table["inout"], full):
        intent = "inout"
    elif fits(table["in"], full):
        intent = "in"
    is_array = bool(array) or (name.startswith("array_of_") and pointers == 1)
    if kind == "text":
        is_array = False
    return Argument(name, base, declared, kind, intent, bool(pointers), is_array, int(array[1] or 0) if array else 0)


def is_dropped(table, function, declared):
    return fits(table["dropped"], f"{function}.{declared.removesuffix('[]').split('*')[-1].split()[-1]}")


def functions(table):
    """The functions of the headers that Fortran has, by name."""
    found = []
    for header in sorted((INCLUDE / "functions").glob("*.h")):
        text = " ".join(re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.DOTALL).split())
        for result, name, inner in re.findall(r"MAINSTAY_MPI\(([\w ]+), (\w+), \((.*?)\)\);", text):
            if fits(table["only_c"], name):
                continue
            parts = [] if inner == "void" else [part.strip() for part in inner.split(",")]
            parts = [part for part in parts if part != "..." and not is_dropped(table, name, part)]
            arguments = tuple(argument(table, name, part) for part in parts)
            found.append(Function(name, result, arguments, header.stem))
    return sorted(found, key=lambda one: one.name.lower())


def constants():
    """The constants of mpi.h with numbers: (name, type in C, number)."""
    found = {}
    for name, text in re.findall(r"^#define (MPI_\w+) (.+)$", (INCLUDE / "mpi.h").read_text(), re.MULTILINE):
        cast = re.match(r"\(\((MPI_\w+)\)", text)
        bare = re.sub(r"\(\w+\) ?(?=[-\d])", "", text).strip("() ").replace("- ", "-")
        if name.startswith("MPI_F_") or "*" in text:
            continue
        if bare in found:
            found[name] = found[bare]
        elif re.fullmatch(r"-?(?:0x[0-9a-fA-F]+|\d+)", bare):
            number = int(bare, 0)
            number = number - (1 << 32) if number >> 31 == 1 else number
            found[name] = (cast[1] if cast else "int", number)
    return [(name, kind, number) for name, (kind, number) in found.items()]


def read_table():
    return tomllib.loads((FOLDER / "arguments.toml").read_text())


def generated():
    """The text of each generated file by its name."""
    import ranks_fortran_c
    import ranks_fortran_modules

    table = read_table()
    known = functions(table)
    numbers = constants()
    return {
        **ranks_fortran_c.files(table, known),
        "mpif.h": ranks_fortran_modules.include_file(numbers),
        "mpi.f90": ranks_fortran_modules.module_mpi(table, known, numbers),
        "mpi_f08.f90": ranks_fortran_modules.module_f08(table, known, numbers),
    }


def main(check):
    stale = []
    texts = generated()
    extra = {path.name for path in WRITTEN.glob("*")} - set(texts)
    for name, text in texts.items():
        path = WRITTEN / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                WRITTEN.mkdir(exist_ok=True)
                path.write_text(text)
    for name in sorted(extra):
        stale.append(name)
        if not check:
            (WRITTEN / name).unlink()
    if check and stale:
        print(f"not up to date, run `make header`: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
