//! Showing that a job comes back: `rehearse`.

use clap::Args;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Shows whether a job comes back as it was: kills it at random moments, and compares its end with an undisturbed run
///
/// Runs the job undisturbed. Runs it again, kills all of its processes KILLS times (SIGKILL, each time after some of its
/// checkpoints and a random delay) and starts it again each time. Then compares the state of both at their end, item by
/// item, and the files that you name.
///
/// Each of the two runs has a directory of its own, with a copy of the working directory (without spaces in it; directories
/// whose name begins with a dot are linked), and spaces of its own, wherever the job names them. Your spaces and files stay as
/// they are, but for files that the job names by an absolute path.
///
/// For the comparison the job saves itself once more when it closes its session, so that it does not matter when it saved
/// the last time. A job that never saves itself begins anew after each kill, and `rehearse` says so.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay rehearse 3 -- mpiexec -n 4 ./simulation input.toml
  mainstay rehearse 5 --compare energies.txt -- python3 train.py
  mainstay rehearse 3 --seed 4711 -- ./simulation      the same moments once more
  mainstay rehearse 3 --with input.toml --with mesh -- mpiexec -n 4 /home/me/bin/simulation

Exit codes:
  0    the same
  1    different, or the job did not come back
  2    wrong usage: also a job that fails undisturbed, and one that has nothing to compare
  4    the system refused something
  128 + N  ended by signal N")]
pub struct Rehearse {
    /// How often the job is killed
    #[arg(value_name = "KILLS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub kills: u32,
    /// Draws the moments. The same seed draws the same numbers of checkpoints and delays; one is drawn and printed unless
    /// given
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// A file that the job writes, compared byte by byte; may be given several times. Relative to the working directory
    #[arg(long, value_name = "FILE")]
    pub compare: Vec<PathBuf>,
    /// A file or directory that the job needs, in place of a copy of the whole working directory; may be given several
    /// times. Relative to it
    #[arg(long, value_name = "PATH")]
    pub with: Vec<PathBuf>,
    /// How long the undisturbed run may take, and each start after it
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = super::time)]
    pub limit: Duration,
    /// Keeps the directories of both runs, which are removed where they are the same
    #[arg(long)]
    pub keep: bool,
    /// The job: a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
