"""C++ and Fortran: allocated memory, memory written past the page tables, and unprotected memory, in jobs that are
killed and restarted."""

import pytest
from jobs import comes_back
from programs import FORTRAN_SOURCES, build_cxx, build_fortran
from ways import rarely

BUILD = {
    "cxx": lambda mpi: build_cxx("memory.cpp", "memory-cxx", mpi=mpi),
    "fortran": lambda mpi: build_fortran(FORTRAN_SOURCES / "memory.f90", "memory-fortran", mpi),
}


@pytest.mark.parametrize("capture", ["incremental", *rarely("whole")])
@pytest.mark.parametrize("language", BUILD)
def test_memory_comes_back_as_it_was(mpi, scratch, monkeypatch, language, capture):
    """With `incremental`, only hashes find memory that was written past the page tables."""
    monkeypatch.setenv("MAINSTAY_CAPTURE", capture)
    monkeypatch.setenv("MAINSTAY_TRACK", "pages")
    comes_back(BUILD[language](mpi), scratch, mpi=mpi)
