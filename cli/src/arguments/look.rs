//! Looking at a space: `ls`, `show`, `diff`, `status`, `report`, `verify`.

use super::{EXIT_CODES, Revision, Space, revision};
use clap::Args;
use std::{path::PathBuf, time::Duration};

/// List the revisions of a space, newest first
///
/// A job that starts now goes on from the `newest` revision. Older ones are `complete`. An `incomplete` revision lacks
/// a shard: a job is saving it, or died while saving it. `perceived` is the longest time that a rank's program waited
/// (t2-t1). `durable` is the longest time until a rank's data was on the medium (t3-t1).
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Ls {
    #[command(flatten)]
    pub space: Space,
}

/// Show a space and the contents of one revision
///
/// Shows the newest complete revision unless you name another.
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
    /// Number of the revision, or `newest` for the newest complete one (the default)
    #[arg(long, value_name = "N", value_parser = revision)]
    pub revision: Option<Revision>,
    /// List each item of each shard. Without it, revisions of more than 8 shards show one line for each item
    #[arg(long)]
    pub shards: bool,
    /// Also show the time of each phase, by rank, by node, and by size of pieces and writes
    #[arg(long)]
    pub phases: bool,
    /// Show the portion of each rank and the place of its next checkpoint, instead of a revision
    #[arg(long, conflicts_with_all = ["revision", "phases", "shards"])]
    pub table: bool,
}

/// Compare two revisions: which items differ, and by how much
///
/// Compares the hashes of blocks of 4 KiB, and reads only blocks with different hashes and some of their neighbours. So
/// two similar revisions are compared as fast as their hashes are read. Items of a global array are compared cell by
/// cell if the ranks hold other boxes, or if the number of ranks changed. All other items are compared rank by rank.
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
    /// Number of the first revision, or `newest`
    #[arg(value_name = "A", value_parser = revision)]
    pub first: Revision,
    /// Number of the second revision, or `newest`
    #[arg(value_name = "B", value_parser = revision)]
    pub second: Revision,
    /// One line for each shard, instead of one for each item
    #[arg(long)]
    pub shards: bool,
}

/// Show how a job stands: is it at work, and which revisions has it saved
///
/// Works during the job and after it. For a job with several levels it shows the state of each level, and which losses
/// the job would survive now. It combines the job's own report with the directories that this node can see. If two
/// revisions in a row did not reach a level, or nothing is saved anywhere, `status` says so first, in red, and exits
/// with 5. For its first hour, or two of its intervals, a job may have nothing saved.
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
    /// Show the table of levels even if the space is the only level
    #[arg(long)]
    pub details: bool,
    /// Repeat every two seconds, or every TIME (--watch=10s), until you stop it
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
    #[arg(value_parser = pause)]
    pub watch: Option<Duration>,
    /// Also write metrics for Prometheus to FILE, for node_exporter
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
}

fn pause(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let pause = super::time(text)?;
    if pause < LEAST { Err("the least is 100ms".to_owned()) } else { Ok(pause) }
}

/// Write an HTML page about the runs of a space
///
/// The page is one file and opens without a network. It has a timeline of checkpoints on all levels, failures and
/// recoveries, charts of the time and size of checkpoints, and tables of failures, starts and revisions. `report` reads
/// the journal that each job keeps in its space, and the space itself. It works during the job and after it.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay report /scratch/me/space -o run.html

{EXIT_CODES}"))]
pub struct Report {
    /// The space: the directory that the job opened
    #[arg(value_name = "SPACE")]
    pub space: PathBuf,
    /// Write to FILE, and replace an older one. Default: standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Read every block and report damage
///
/// Verifies all complete revisions unless you name one. Compares each block with its hash, and reads past the cache if
/// the file system allows it. A revision that a running job removes in the meantime does not count as damaged.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Verify {
    #[command(flatten)]
    pub space: Space,
    /// Verify only this revision: a number, or `newest`
    #[arg(long, value_name = "N", value_parser = revision)]
    pub revision: Option<Revision>,
}
