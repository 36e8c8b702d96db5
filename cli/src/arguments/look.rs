//! Looking into a space: `ls`, `show`, `diff`, `status`, `verify`.

use super::{EXIT_CODES, Revision, Space, revision};
use clap::Args;
use std::{path::PathBuf, time::Duration};

/// Lists the revisions of a space, newest first
///
/// `newest` is the revision that a job started now goes on from; `complete` ones are older; of an
/// `incomplete` one not every shard was found: it is being saved, or the job that saved it died.
/// `perceived` is the longest that a rank's program waited (t2-t1), `durable` the longest until a
/// rank's data was on the medium (t3-t1).
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Ls {
    #[command(flatten)]
    pub space: Space,
}

/// Shows what a space is, and what a revision consists of
///
/// Of the newest complete revision, unless another one is asked for.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay show /scratch/me/space
  mainstay show /scratch/me/space --revision 12 --phases
  mainstay show /scratch/me/space --json | jq '.revision.shard_list[].items[].name'

{EXIT_CODES}"))]
pub struct Show {
    #[command(flatten)]
    pub space: Space,
    /// The revision of this number; newest, as without: the newest complete one
    #[arg(long, value_name = "N", value_parser = revision)]
    pub revision: Option<Revision>,
    /// Each item of each shard, also where there are so many shards that items are summed up over them (more than 8)
    #[arg(long)]
    pub shards: bool,
    /// Also where the time went, by rank, node and size of pieces and writes
    #[arg(long)]
    pub phases: bool,
    /// In place of the revision: where each rank's portion lies, and where its next checkpoint goes
    #[arg(long, conflicts_with_all = ["revision", "phases", "shards"])]
    pub table: bool,
}

/// Tells which items differ between two revisions, and how much
///
/// By their blocks of 4 KiB: only those are read whose hashes differ, and some that lie beside them. Two revisions that are much
/// alike are compared at the speed at which hashes are read. Items of global arrays are compared cell by cell where the ranks have other boxes,
/// or are more or fewer; all others by the rank that saved them.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay diff /scratch/me/space 11 12
  mainstay diff /scratch/me/space 11 newest --shards
  mainstay diff /scratch/me/space 11 12 --json | jq '.items[] | select(.state != \"same\")'

{EXIT_CODES}"))]
pub struct Diff {
    #[command(flatten)]
    pub space: Space,
    /// The number of one revision, or `newest`
    #[arg(value_name = "A", value_parser = revision)]
    pub first: Revision,
    /// The number of the other, or `newest`
    #[arg(value_name = "B", value_parser = revision)]
    pub second: Revision,
    /// A line for each shard, in place of one for each item
    #[arg(long)]
    pub shards: bool,
}

/// Tells how a job stands: whether it is at work, and what it has saved
///
/// While the job runs and after it. Of a job with several levels it tells how each stands, and which losses the job would
/// survive now: what the job told of itself, together with what is in sight on this node. Where two revisions in a row did not
/// get to a level, or nothing is saved anywhere, it says so first, in red, and ends with the exit code 5. A job that has been at
/// work for less than an hour, or two of its intervals, may have nothing saved yet.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay status /scratch/me/space
  mainstay status /scratch/me/space --watch
  mainstay status /scratch/me/space --json | jq '.losses[] | select(.survived | not)'
  mainstay status /scratch/me/space --prometheus /var/lib/node_exporter/mainstay.prom > /dev/null

{EXIT_CODES}"))]
pub struct Status {
    #[command(flatten)]
    pub space: Space,
    /// The table of levels also of a space that has no other level
    #[arg(long)]
    pub details: bool,
    /// Again every two seconds, or every TIME (--watch=10s), until it is stopped
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
    #[arg(value_parser = pause)]
    pub watch: Option<Duration>,
    /// Writes also what Prometheus can read, into a file for node_exporter
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
}

fn pause(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let pause = super::time(text)?;
    if pause < LEAST { Err("the least is 100ms".to_owned()) } else { Ok(pause) }
}

/// Writes a page about a run, for a browser
///
/// One HTML file, which opens with no network: a timeline of the checkpoints on all levels, of failures and recoveries, what
/// checkpoints took and how large they were, and tables of failures, starts and revisions. It is made of the journal that each
/// job writes in its space, and of what lies there, while the job runs and after it.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay report /scratch/me/space -o run.html

{EXIT_CODES}"))]
pub struct Report {
    /// The directory that a session was opened on
    #[arg(value_name = "SPACE")]
    pub space: PathBuf,
    /// The file that it is written to, in place of one that is there; unless given, standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Reads every block and says what is damaged
///
/// Of all complete revisions, unless one is asked for. Each block is compared with its hash, read
/// past the cache where the file system allows it. A revision that a running job lets go meanwhile
/// is not damaged.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Verify {
    #[command(flatten)]
    pub space: Space,
    /// Only the revision of this number, or `newest`
    #[arg(long, value_name = "N", value_parser = revision)]
    pub revision: Option<Revision>,
}
