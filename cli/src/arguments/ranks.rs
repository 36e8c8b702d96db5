//! Programs for ranks in slots: `mpicc`, `mpicxx`, `mpifort`, and the host for one process.

use clap::Args;
use std::{ffi::OsString, path::PathBuf};

/// Compile a C program with MPI for `mainstay run --virtual`
///
/// Calls cc, or the compiler in CC, with the flags for Mainstay's mpi.h and MPI library. The program is position
/// independent, as slots need it. The same file also runs under MPICH.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  mainstay mpicc -O2 heat.c -o heat
  mainstay mpicc -show                 prints the command
  make CC=\"mainstay mpicc\"

The exit code is that of the compiler; 127 if it was not found."
)]
pub struct Mpicc {
    /// Options and files for the compiler; -show prints the command instead
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Compile a C++ program with MPI for `mainstay run --virtual`
///
/// As `mainstay mpicc`, with c++, or the compiler in CXX.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  mainstay mpicxx -O2 -std=c++20 heat.cpp -o heat"
)]
pub struct Mpicxx {
    /// Options and files for the compiler; -show prints the command instead
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Compile a Fortran program with MPI for `mainstay run --virtual`
///
/// As `mainstay mpicc`, with gfortran, or the compiler in FC. There are mpif.h and the modules mpi and mpi_f08. The
/// first call compiles the modules for this compiler, to a folder in ~/.cache/mainstay (XDG_CACHE_HOME).
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  mainstay mpifort -O2 heat.f90 -o heat
  make FC=\"mainstay mpifort\""
)]
pub struct Mpifort {
    /// Options and files for the compiler; -show prints the command instead
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Run all ranks of a program in this process. `mainstay run --virtual` starts this if there is no launcher
#[derive(Debug, Args)]
pub struct HostRanks {
    /// Number of ranks; 0: as the job in the space has, or one
    #[arg(long = "virtual", value_name = "N", default_value_t = 0)]
    pub ranks: usize,
    /// The space that the ranks are saved to
    #[arg(long, value_name = "SPACE")]
    pub space: PathBuf,
    /// "yes": save the files that ranks map, too
    #[arg(long, value_name = "YES")]
    pub with_libraries: Option<String>,
    /// The folder with the MPI libraries for ranks
    #[arg(long, value_name = "DIR")]
    pub library: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
