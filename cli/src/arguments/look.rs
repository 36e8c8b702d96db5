//! Looking into a space: `ls`, `show`, `verify`.

use super::{EXIT_CODES, Space};
use clap::Args;

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
    /// The revision of this number in place of the newest complete one
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
    /// Also where the time went, by rank, node and size of pieces and writes
    #[arg(long)]
    pub phases: bool,
    /// In place of the revision: where each rank's portion lies, and where its next checkpoint goes
    #[arg(long, conflicts_with_all = ["revision", "phases"])]
    pub table: bool,
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
    /// Only the revision of this number
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
}
