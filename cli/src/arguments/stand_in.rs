//! Libraries that stand in for other checkpoint libraries.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Make a library that stands in for VeloC, SCR or FTI: relink your program, and it saves with Mainstay
///
/// The directory gets `include` and `lib`, as an installation of the other library has them. The library is compiled with
/// mpicc, or the compiler in MPICC: use that of your program. The program's source and configuration stay.
#[derive(Debug, Args)]
#[command(
    name = "stand-in",
    after_help = "\
Examples:
  mainstay stand-in veloc ~/veloc
  mpicc heat.c -I ~/veloc/include -L ~/veloc/lib -lveloc-client -Wl,-rpath,$HOME/veloc/lib -o heat
  MPICC=/opt/mpich/bin/mpicc mainstay stand-in scr ~/scr"
)]
pub struct StandIn {
    /// The library that your program uses now
    #[arg(value_name = "LIBRARY")]
    pub library: Library,
    /// The directory for the new library
    #[arg(value_name = "DIR")]
    pub into: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Library {
    Veloc,
    Scr,
    Fti,
}
