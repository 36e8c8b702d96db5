//! Rehearsing a failure: `rehearse`.

use clap::Args;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Kill a job at random moments, restart it, and compare its end with an undisturbed run
///
/// First, `rehearse` runs the job undisturbed. Then it runs the job again, kills all of its processes KILLS times (with
/// SIGKILL, each time after some checkpoints and a random delay) and restarts it each time. At the end it compares the
/// state of both runs, item by item, and the files that you name.
///
/// Each of the two runs works in a directory of its own, with a copy of the working directory. Spaces are not copied;
/// directories with a name that begins with a dot are linked. Each run also has its own spaces, wherever the job names
/// them. Your spaces and files stay as they are, except files that the job names by an absolute path.
///
/// For the comparison, the job saves once more when it closes its session, so the time of its last checkpoint does not
/// matter. A job that never saves itself begins anew after each kill, and `rehearse` says so.
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
    /// Number of times to kill the job
    #[arg(value_name = "KILLS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub kills: u32,
    /// Seed for the moments of the kills. The same seed gives the same numbers of checkpoints and the same delays.
    /// Default: a random seed, which is printed
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// A file that the job writes, to compare byte by byte, relative to the working directory; repeat for several
    #[arg(long, value_name = "FILE")]
    pub compare: Vec<PathBuf>,
    /// A file or directory that the job needs, relative to the working directory. Only these are copied instead of the
    /// whole directory; repeat for several
    #[arg(long, value_name = "PATH")]
    pub with: Vec<PathBuf>,
    /// Longest time of the undisturbed run, and of each start after it
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = super::time)]
    pub limit: Duration,
    /// Keep the directories of both runs. Without it they are removed if the ends are the same
    #[arg(long)]
    pub keep: bool,
    /// The job: a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
