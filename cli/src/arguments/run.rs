//! Running jobs: `run`.

use super::FileOptions;
use clap::{Args, ValueEnum};
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Run a job, and start it again after a failure
///
/// Each start goes on from the newest complete revision, which the program's own restore finds. Input, output and
/// signals pass through. `run` gives up if the job fails twice with no new complete revision, or restart file, in between.
/// It does not restart a job that ends after SIGINT, SIGTERM, SIGHUP or SIGQUIT.
///
/// If the program calls mainstay_due, `run` asks for a last checkpoint before it passes SIGTERM on, and before the time
/// limit. A second SIGTERM ends the job at once. SIGUSR1 asks for a checkpoint, and the job goes on: batch systems send
/// it as a warning.
///
/// If you name the nodes (--hosts, --hostfile or --nodes-from), each start uses the nodes that answer, with the same
/// number of ranks. Spares replace nodes that do not answer; after that the other nodes take more ranks. `run` tells
/// the launcher in the command (mpiexec of Open MPI or MPICH, or srun) which nodes to use, so the command names none. A
/// job that does not close its space has failed, whatever its launcher returns.
///
/// With --in-job the job itself goes on when ranks fail, without a restart, and lost data comes back from memory. This
/// needs a program that calls mainstay_recover, and an MPI that supports it (Open MPI 5.0 or later). A failure that the
/// job cannot recover from ends it, and `run` restarts it as usual.
///
/// With --virtual, any MPI program runs unchanged, and is saved as a whole. A process of the launcher holds several
/// ranks of the program, so each start may have another number of processes. A program without a launcher has one
/// process. Compile the program with `mainstay mpicc`, or use one that was built for MPICH.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  mainstay run --restarts 5 -- mpiexec -n 64 ./simulation input.toml
  mainstay run --time-limit 2h --margin 2min -- mpiexec -n 64 ./simulation input.toml
  mainstay run --space /scratch/me/space -- mpiexec --host n1,n2 ./simulation
  mainstay run --hosts n1:32,n2:32 --spares n3:32 -- mpiexec -n 64 ./simulation input.toml
  mainstay run --nodes-from slurm --ranks 64 -- srun ./simulation input.toml
  mainstay run --in-job --spares 2 -- mpiexec -n 64 ./simulation input.toml
  mainstay run --files 'restart.*' --keep 3 -- mpiexec -n 64 lmp -in in.melt
  mainstay run --virtual 16 --every 5m --space /scratch/me/heat -- mpiexec -n 4 ./heat

Exit codes:
  0    the job is done
  75   cut off by SIGTERM or the time limit, after it had saved more: run it again, it goes on from there
  76   given up: the job failed twice with no new complete revision or restart file in between, and would fail again
  else the job failed and no restart was left, or it was cut off and had saved nothing new. The code is the status
       of its last run, or 128 + N if signal N ended it
  1    also: the launcher returned 0, but the job did not close its space, or lost a node
  2    wrong usage
  4    the system refused something else
  126  the job's program could not be started
  127  the job's program was not found")]
pub struct Run {
    /// Largest number of restarts
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub restarts: u32,
    /// A space that the job saves to; repeat for several. Needed only if rank 0 runs on another machine: otherwise the
    /// job reports its spaces
    #[arg(long = "space", value_name = "SPACE")]
    pub spaces: Vec<PathBuf>,
    /// Allow the first start to replace saved revisions that it did not restore (MAINSTAY_START=fresh). Later starts of
    /// this run restore as usual
    #[arg(long)]
    pub fresh: bool,
    /// Ask the job to end, after a last checkpoint, before it has run for TIME in all ("90 min")
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub time_limit: Option<Duration>,
    /// Start the last checkpoint this long before the time limit; it may take as long. Default: 1 min, at most half of
    /// the time limit
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub margin: Option<Duration>,
    /// The nodes, each with its number of ranks (default 1): n1:2,n2:2
    #[arg(long, value_name = "NODES", group = "nodes")]
    pub hosts: Option<String>,
    /// A file with a line for each node, "n1:2" or "n1 slots=2"; read again before each start
    #[arg(long, value_name = "FILE", group = "nodes")]
    pub hostfile: Option<PathBuf>,
    /// Ask a batch system for the nodes, again before each start
    #[arg(long, value_name = "SYSTEM", group = "nodes")]
    pub nodes_from: Option<NodesFrom>,
    /// Nodes that replace nodes that do not answer, as in --hosts. With --in-job, a plain number starts N extra ranks,
    /// which wait to replace failed ranks. You may give both
    #[arg(long, value_name = "NODES|N")]
    pub spares: Vec<String>,
    /// Number of ranks of every start. Default: the number in the command, or the slots of the nodes
    #[arg(long, value_name = "N", requires = "nodes", value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Option<u32>,
    /// If the nodes that answer have fewer slots, start that many ranks, but at least N: for programs that can restart
    /// on another number of ranks. Without it every start has as many ranks as the first, several on a core if
    /// necessary
    #[arg(long, value_name = "N", requires = "nodes", value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks_at_least: Option<u32>,
    /// Shell command that checks if a node answers; {host} stands for its name. Default: `true` through the launcher's
    /// remote shell
    #[arg(long, value_name = "COMMAND", requires = "nodes", value_parser = with_host)]
    pub reach: Option<String>,
    /// Longest time for a node to answer. Default: 10 s
    #[arg(long, value_name = "TIME", requires = "nodes", value_parser = super::time)]
    pub reach_limit: Option<Duration>,
    /// How often to check the nodes while the job runs. A node that fails two checks ends the run, because launchers
    /// may hang then. Default: 1 min; never with Slurm, which checks by itself. 0s: never
    #[arg(long, value_name = "TIME", requires = "nodes", value_parser = super::time)]
    pub look_every: Option<Duration>,
    /// Let the job go on by itself when ranks fail
    #[arg(long)]
    pub in_job: bool,
    /// How the job goes on: with replacements for failed ranks, or on fewer ranks. Default: the setting `recovery`, or
    /// replacements if that is off
    #[arg(long, value_name = "WAY", requires = "in_job")]
    pub recovery: Option<Recovery>,
    /// Treat a rank as failed if it is silent for TIME, for example stopped or stuck ("2s"). Default: only the death of
    /// a rank counts
    #[arg(long, value_name = "TIME", requires = "in_job", value_parser = heartbeat)]
    pub heartbeat: Option<Duration>,
    /// Run an MPI program that does not know Mainstay, as N ranks on the processes of the launcher. Needs --space, the
    /// space that the ranks are saved to. Without N: as many ranks as the job in the space has, or as processes
    #[arg(long = "virtual", value_name = "N", num_args = 0..=1, default_missing_value = "0", requires = "spaces")]
    pub virtual_ranks: Option<u32>,
    /// With --virtual: save the ranks after this time ("5m"), as the setting every_seconds
    #[arg(long, value_name = "TIME", requires = "virtual_ranks", value_parser = super::time)]
    pub every: Option<Duration>,
    /// With --virtual: move ranks between the processes for an even load, at every TIME: "refine:5m". STRATEGY is one of
    /// those for objects
    #[arg(long, value_name = "STRATEGY:TIME", requires = "virtual_ranks", value_parser = balance)]
    pub balance: Option<String>,
    /// With --virtual: also save the program, its libraries, and other files that ranks map privately. A restart then
    /// needs the program file only; libraries may be missing or newer. Costs room and time; with incremental capture once
    #[arg(long, requires = "virtual_ranks")]
    pub with_libraries: bool,
    /// Only print the plan of the first start and the nodes that do not answer
    #[arg(long)]
    pub dry_run: bool,
    /// The job: a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Protect the restart files that the program writes by itself, as `mainstay files --match PATTERN`; repeat for several
    #[arg(long, value_name = "PATTERN", alias = "match", help_heading = "Restart files, as in `mainstay files`")]
    pub files: Vec<String>,
    #[command(flatten, next_help_heading = "Restart files, as in `mainstay files`")]
    pub file_options: FileOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NodesFrom {
    /// The nodes of this allocation
    Slurm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Recovery {
    /// Spares replace failed ranks; without spares, the job starts new processes
    Replace,
    /// The job goes on with fewer ranks
    Shrink,
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let time = super::time(text)?;
    if time < LEAST { Err("the least is 100ms".to_owned()) } else { Ok(time) }
}

/// In the words of the host program, which takes seconds.
fn balance(text: &str) -> Result<String, String> {
    let (strategy, every) = text.split_once(':').ok_or("it lacks its time: refine:5m")?;
    let given = format!("{strategy}:{}", super::time(every)?.as_secs_f64());
    given.parse::<mainstay_ranks::Balance>().map(|_| given).map_err(|error| error.to_string())
}

fn with_host(text: &str) -> Result<String, String> {
    if text.contains("{host}") {
        Ok(text.to_owned())
    } else {
        Err("it lacks {host}, the place of a node's name".into())
    }
}
