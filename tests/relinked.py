"""Libraries that stand in for VeloC, SCR and FTI, programs that are linked to them, and their configurations."""

import os
import re
import subprocess
from functools import cache

from command import MAINSTAY
from library import run as compiled
from limits import LIMIT_S
from mpi import OPENMPI
from programs import BUILT, FORTRAN_SOURCES, ROOT

SOURCES = ROOT / "tests" / "stand_ins"
NAMES = {"veloc": "veloc-client", "scr": "scr", "fti": "fti"}


@cache
def stand_in(library, mpi=OPENMPI):
    """The folder of the library that stands in for another, for an MPI."""
    folder = BUILT / mpi.name / f"stand-in-{library}"
    words = [MAINSTAY, "stand-in", library, folder]
    variables = {**os.environ, "MPICC": mpi.command("mpicc")}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert f"for the MPI of {mpi.command('mpicc')}\n" in done.stdout
    return folder


def linked(name, library, folder, program, mpi=OPENMPI):
    """Links a program in C as users of the library link it. Returns its path."""
    links = [f"-L{folder}/lib", f"-l{NAMES[library]}", f"-Wl,-rpath,{folder}/lib"]
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{folder}/include"]
    compiled([mpi.command("mpicc"), *flags, SOURCES / f"{name}.c", *links, "-o", program])
    return program


@cache
def build(name, library, mpi=OPENMPI):
    """The path of a program in C, linked to a stand-in."""
    return linked(name, library, stand_in(library, mpi), BUILT / mpi.name / f"user-of-{name}", mpi)


def build_fortran(name, library):
    """The path of a program in Fortran, linked to the module of a stand-in."""
    folder = stand_in(name)
    program = BUILT / OPENMPI.name / f"user-of-{name}-fortran"
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
