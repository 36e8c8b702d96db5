//! Running jobs: `run`.

use clap::Args;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Runs a job, and starts it again after a failure
///
/// The job is started anew from the newest complete revision: its own restore finds it. Input and
/// output are passed through, and signals are passed on. A job that fails twice with no new complete
/// revision in between is given up, and one that ends after SIGINT, SIGTERM, SIGHUP or SIGQUIT is
/// not started again.
///
/// A job whose program calls mainstay_due is asked for a last checkpoint before SIGTERM is passed on, and
/// before the time limit; a second SIGTERM ends it at once. SIGUSR1 asks for a checkpoint and lets the job
/// go on: batch systems send it as a warning.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay run --restarts 5 -- mpiexec -n 64 ./simulation input.toml
  mainstay run --time-limit 2h --margin 2min -- mpiexec -n 64 ./simulation input.toml
  mainstay run --space /scratch/me/space -- mpiexec --host n1,n2 ./simulation

Exit codes:
  that of the job's last run; 128 + N if signal N ended it
  2    wrong usage
  4    the system refused something else
  126  the job's program could not be started
  127  the job's program was not found")]
pub struct Run {
    /// How often the job is started again, at most
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub restarts: u32,
    /// The space that the job saves to; may be given several times. Needed only where rank 0 runs on
    /// another machine than this: otherwise the job tells
    #[arg(long = "space", value_name = "SPACE")]
    pub spaces: Vec<PathBuf>,
    /// The first start may push out what is saved already, without having restored it (MAINSTAY_START=fresh); later
    /// starts of this run go on as usual
    #[arg(long)]
    pub fresh: bool,
    /// The job is asked to end before it has run for so long in all, after a last checkpoint ("90 min")
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time_limit: Option<Duration>,
    /// How long before the time limit that is, and how long a last checkpoint may take; 1 min, but half of
    /// the time limit at most
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub margin: Option<Duration>,
    /// The job: a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
