//! Recording the pages that a program writes: `trace`.

use clap::Args;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Run a program and record which protected pages it writes
///
/// `mainstay oracle` computes from the traces the gain of saving pages early. Each rank writes a file rank-N.trace,
/// with a record wherever the program calls mainstay_tick or mainstay_due, or mainstay_checkpoint if it never calls
/// mainstay_due. The last two end an iteration. Needs Linux 6.8.10 or later. Ranks on other nodes may not get the
/// environment of the launcher: for them, set `trace` in mainstay.toml.
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
    /// Directory for the traces; older ones are replaced
    #[arg(long, value_name = "DIR", default_value = "trace")]
    pub out: PathBuf,
    /// Also record the pages written in each TIME ("10 ms"), besides the records at calls
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub every: Option<Duration>,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<OsString>,
}
