#!/bin/sh
# Reports the missing programs for the named tasks: rust, c, fortran, cmake, hdf5, python. PYTHON names the interpreter.
missing=0

lack() {
    echo "missing: $1" >&2
    echo "    $2" >&2
    missing=1
}

check_rust() {
    command -v cargo >/dev/null ||
        lack "cargo, the Rust toolchain" "install it from https://rustup.rs, or put its bin folder into PATH"
}

check_c() {
    command -v cc >/dev/null ||
        lack "cc, a C compiler" "install gcc or clang; on Debian and Ubuntu: apt-get install build-essential"
    command -v c++ >/dev/null ||
        lack "c++, a C++ compiler" "install g++ or clang; on Debian and Ubuntu: apt-get install build-essential"
}

check_fortran() {
    command -v gfortran >/dev/null ||
        lack "gfortran, a Fortran compiler" "on Debian and Ubuntu: apt-get install gfortran"
}

check_cmake() {
    command -v cmake >/dev/null || lack "cmake" "on Debian and Ubuntu: apt-get install cmake"
}

check_hdf5() {
    command -v h5dump >/dev/null || lack "h5dump" "on Debian and Ubuntu: apt-get install hdf5-tools"
    command -v ncdump >/dev/null || lack "ncdump" "on Debian and Ubuntu: apt-get install netcdf-bin"
}

check_python() {
    python=${PYTHON:-python3}
    if ! found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); then
        lack "$python, Python 3.10 or newer" "install it, or name one that you have: make PYTHON=/path/to/python3"
    elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        lack "Python 3.10 or newer: $python is $found" "name a newer one: make PYTHON=/path/to/python3"
    elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        lack "the module venv of $python ($found)" "on Debian and Ubuntu: apt-get install python3-venv"
    fi
}

for task in "$@"; do
    "check_$task"
done
exit $missing
