"""Libraries that stand in for VeloC, SCR and FTI, programs that are linked to them, and their configurations."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

from command import MAINSTAY
from library import once
from library import run as compiled
from limits import LIMIT_S
from mpi import OPENMPI
from programs import FORTRAN_SOURCES, ROOT, place

SOURCES = ROOT / "tests" / "stand_ins"
NAMES = {"veloc": "veloc-client", "scr": "scr", "fti": "fti"}


@cache
def stand_in(library, mpi=OPENMPI):
    """The folder of the library that stands in for another, for an MPI. It is compiled once for all tests."""
    compiler, note = mpi.command("mpicc"), place(mpi, f"stand-in-{library}")
    words = [MAINSTAY, "stand-in", library]

    def make(made):
        folder = made.with_suffix(".folder")
        variables = {**os.environ, "MPICC": compiler}
        done = subprocess.run([*words, folder], env=variables, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        assert f"for the MPI of {compiler}\n" in done.stdout
        made.write_text(str(folder))

    sources = [path for path in (ROOT / "capi" / "stand_ins").rglob("*") if path.is_file()]
    once(note, [*words, compiler], sources, make)
    return Path(note.read_text())


def linked(name, library, folder, program, mpi=OPENMPI):
    """Links a program in C as users of the library link it. Returns its path."""
    links = [f"-L{folder}/lib", f"-l{NAMES[library]}", f"-Wl,-rpath,{folder}/lib"]
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{folder}/include"]
    words, source = [mpi.command("mpicc"), *flags, SOURCES / f"{name}.c", *links], SOURCES / f"{name}.c"
    once(program, words, [source], lambda made: compiled([*words, "-o", made]))
    return program


@cache
def build(name, library, mpi=OPENMPI):
    """The path of a program in C, linked to a stand-in."""
    return linked(name, library, stand_in(library, mpi), place(mpi, f"user-of-{name}"), mpi)


def build_fortran(name, library):
    """The path of a program in Fortran, linked to the module of a stand-in."""
    folder = stand_in(name)
    program = place(OPENMPI, f"user-of-{name}-fortran")
    objects = program.with_name(f"user-of-{name}-objects")
    objects.mkdir(exist_ok=True)
    for source, made in (FORTRAN_SOURCES / "mpi.f90", "mpi.o"), (SOURCES / f"{name}.f90", "program.o"):
        compiled(["gfortran", "-O1", f"-J{objects}", f"-I{folder}/include", "-c", source, "-o", objects / made])
    compiled([OPENMPI.command("mpicc"), "-c", FORTRAN_SOURCES / "mpi.c", "-o", objects / "mpi-c.o"])
    links = [f"-L{folder}/lib", f"-l{library}", f"-Wl,-rpath,{folder}/lib", "-lgfortran", "-lm"]
    compiled([OPENMPI.command("mpicc"), *objects.glob("*.o"), *links, "-o", program])
    return program


def configuration(folder, **settings):
    """The path of a file with VeloC's settings. `None` leaves one out."""
    usual = {"scratch": folder / "node", "persistent": folder / "persistent", "mode": "async", "max_versions": 3}
    file = folder / "veloc.cfg"
    lines = [f"{name} = {value}" for name, value in {**usual, **settings}.items() if value is not None]
    file.write_text("# a comment\n" + "\n".join(lines) + "\n")
    return file


def set_variables(monkeypatch, **values):
    """Sets variables of the environment for the jobs of a test."""
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))


def results(output):
    """The results that a program of calls has printed, by the word of the call."""
    return re.findall(r"^(?:\[.*\] )?(\S+) (-?\d+)$", output, re.M)


def sum_of(output):
    """The sum that a program has printed at its end."""
    return re.search(r"sum +(\S+)$", output, re.M)[1]


def configuration_of_fti(folder, **settings):
    """The path of a file with FTI's settings."""
    usual = {"Head": 0, "Ckpt_dir": f"{folder}/Local  # of the node", "glbl_dir": folder / "Global", "ckpt_L1": 3}
    file = folder / "config.fti"
    lines = [f"{name} = {value}" for name, value in {**usual, **settings}.items()]
    file.write_text("[ Basic ]\n" + "\n".join(lines) + "\n[Restart]\nfailure = 0\n")
    return file
