//! Running jobs: `run`.

use clap::{Args, ValueEnum};
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
///
/// Given its nodes (--hosts, --hostfile or --nodes-from), each start runs on those that answer, with the same number of
/// ranks: spares take the place of nodes that do not, then the others take more ranks. The launcher in the command
/// (mpiexec of Open MPI or MPICH, srun, flux run or flux submit) is told where; the command itself names no nodes. A job
/// that never closed what it had opened has failed, whatever its launcher says.
///
/// With --in-job the job itself goes on when ranks fail, if its program calls mainstay_recover and its MPI can (Open MPI from 5.0
/// on): nothing is started again, and what is lost comes back from memory. What the job cannot recover from ends it, and it
/// is started again, as it would be without --in-job.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay run --restarts 5 -- mpiexec -n 64 ./simulation input.toml
  mainstay run --time-limit 2h --margin 2min -- mpiexec -n 64 ./simulation input.toml
  mainstay run --space /scratch/me/space -- mpiexec --host n1,n2 ./simulation
  mainstay run --hosts n1:32,n2:32 --spares n3:32 -- mpiexec -n 64 ./simulation input.toml
  mainstay run --nodes-from slurm --ranks 64 -- srun ./simulation input.toml
  mainstay run --in-job --spares 2 -- mpiexec -n 64 ./simulation input.toml

Exit codes:
  0    the job is done
  75   cut off by SIGTERM or the time limit, after it had saved more: run it again, it goes on from there
  76   given up: the job failed twice with no new complete revision in between, and would again
  else the job failed, and no restart was left; or it was cut off and had saved nothing new. The code is that of its
       last run, 128 + N if signal N ended it
  1    also: the launcher said 0, but the job did not close what it had opened, or lost a node
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
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub time_limit: Option<Duration>,
    /// How long before the time limit that is, and how long a last checkpoint may take; 1 min, but half of
    /// the time limit at most
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub margin: Option<Duration>,
    /// The nodes, each with the number of ranks that it is meant for (1 unless given): n1:2,n2:2
    #[arg(long, value_name = "NODES", group = "nodes")]
    pub hosts: Option<String>,
    /// A file with a line for each node, "n1:2" or "n1 slots=2"; read again before each start
    #[arg(long, value_name = "FILE", group = "nodes")]
    pub hostfile: Option<PathBuf>,
    /// Has a batch system tell the nodes, asked again before each start
    #[arg(long, value_name = "SYSTEM", group = "nodes")]
    pub nodes_from: Option<NodesFrom>,
    /// Nodes that take the place of those that do not answer, as in --hosts. With --in-job a plain number: so many ranks more
    /// are started, which wait until they can take the place of one that fails. Both may be given
    #[arg(long, value_name = "NODES|N")]
    pub spares: Vec<String>,
    /// How many ranks every start has; unless given, as many as the command says, or as the nodes are meant for
    #[arg(long, value_name = "N", requires = "nodes", value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Option<u32>,
    /// Where the nodes that answer have fewer slots, the start has as many ranks as those, but so many at least: for programs
    /// that come back on another number of ranks. Unless given, each start has as many as the first, several to a core if
    /// need be
    #[arg(long, value_name = "N", requires = "nodes", value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks_at_least: Option<u32>,
    /// What asks a node whether it answers: a line for the shell, with {host} for its name. Unless given, the launcher's
    /// remote shell runs `true` there
    #[arg(long, value_name = "COMMAND", requires = "nodes", value_parser = with_host)]
    pub reach: Option<String>,
    /// How long a node may take to answer; 10 s unless given
    #[arg(long, value_name = "TIME", requires = "nodes", value_parser = super::time)]
    pub reach_limit: Option<Duration>,
    /// How often the nodes are asked while the job runs; one that does not answer twice ends the run, as launchers may
    /// hang then. 1 min unless given, but never with Slurm, which looks itself; 0s: never
    #[arg(long, value_name = "TIME", requires = "nodes", value_parser = super::time)]
    pub look_every: Option<Duration>,
    /// Has the job go on by itself when ranks fail
    #[arg(long)]
    pub in_job: bool,
    /// How it does so: with replacements in the places of ranks that failed, or on fewer ranks. Unless given, as the setting
    /// `recovery` says, and with replacements where that is off
    #[arg(long, value_name = "WAY", requires = "in_job")]
    pub recovery: Option<Recovery>,
    /// Ranks that say nothing for so long have failed, though they are there: stopped, or stuck ("2s"). Unless given, only the
    /// death of a rank is noticed
    #[arg(long, value_name = "TIME", requires = "in_job", value_parser = heartbeat)]
    pub heartbeat: Option<Duration>,
    /// Only tells what the first start would be, and which nodes do not answer
    #[arg(long)]
    pub dry_run: bool,
    /// The job: a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NodesFrom {
    /// The allocation that this runs in
    Slurm,
    /// The instance that this runs in
    Flux,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Recovery {
    /// Spares, or else processes that are started then, take the places
    Replace,
    /// Fewer ranks go on
    Shrink,
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let time = super::time(text)?;
    if time < LEAST { Err("the least is 100ms".to_owned()) } else { Ok(time) }
}

fn with_host(text: &str) -> Result<String, String> {
    if text.contains("{host}") {
        Ok(text.to_owned())
    } else {
        Err("it lacks {host}, the place of a node's name".into())
    }
}
