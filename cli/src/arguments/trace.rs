//! Recording what a program writes: `trace`.

use clap::Args;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Runs a program, and records which pages of what it protects it writes
///
/// For `mainstay oracle`, which tells what saving pages early would gain. Each rank makes a file rank-N.trace, with a record
/// wherever the program calls mainstay_tick, mainstay_due, or mainstay_checkpoint if it never calls mainstay_due; the last
/// two end an iteration. Needs Linux 6.8.10 or later. Ranks on other nodes do not always get the environment of the launcher:
/// for these, set `trace` in mainstay.toml.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay trace -- mpiexec -n 4 ./simulation input.toml
  mainstay trace --out traces --every 10ms -- ./simulation
  mainstay oracle trace/*.trace --iterations 20

Exit codes:
  that of the program
  2    wrong usage
  4    the system refused something
  126  the program could not be started
  127  the program was not found")]
pub struct Trace {
    /// The directory in which the traces are made, in place of older ones
    #[arg(long, value_name = "DIR", default_value = "trace")]
    pub out: PathBuf,
    /// Also records what was written in each such time ("10 ms"), besides where the program says so
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub every: Option<Duration>,
    /// The program, with its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<OsString>,
}
