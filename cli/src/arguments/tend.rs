//! Looking after a space: `checkpoint`, `evacuate`, `hold`, `release`, `prune`, `rollback`, `salvage`.

use super::{EXIT_CODES, Revision, Space, revision};
use clap::{ArgGroup, Args};
use std::{path::PathBuf, time::Duration};

/// Ask a running job to save itself now, and go on
///
/// The job saves at its next safe point, where its program calls mainstay_due. `checkpoint` waits until the revision is
/// complete.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Checkpoint {
    #[command(flatten)]
    pub space: Space,
    /// Longest time to wait ("90 s", "5 min")
    #[arg(long, value_name = "TIME", default_value = "1 min", value_parser = super::time)]
    pub timeout: Duration,
}

/// Move all objects of a running job off a node that is about to fail
///
/// For programs made of objects that move. At the job's next safe point, where the program calls mainstay_due and
/// mainstay_objects_checkpoint, the objects of that node move to the other nodes, and a checkpoint saves them there.
/// `evacuate` waits until the revision is complete. A later failure of the node then loses no object. No object returns
/// to the node later. The job goes on.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay status /scratch/me/space          lists the nodes
  mainstay evacuate /scratch/me/space n17

{EXIT_CODES}"))]
pub struct Evacuate {
    #[command(flatten)]
    pub space: Space,
    /// Name of the node, as `mainstay status` prints it
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Longest time to wait ("90 s", "5 min")
    #[arg(long, value_name = "TIME", default_value = "1 min", value_parser = super::time)]
    pub timeout: Duration,
}

/// Keep a revision until you release it, whatever the job removes
///
/// Holds the newest complete revision unless you name another. If no job has the space open, the hold counts at once. A
/// job at work accepts the hold at its next checkpoint: `hold` waits for that, and reports if the hold counts. `hold`
/// refuses if the next checkpoint would have no room.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay hold /scratch/me/space --note 'before the change of grid'
  mainstay hold /scratch/me/space --revision 12 --for 7d

{EXIT_CODES}"))]
pub struct Hold {
    #[command(flatten)]
    pub space: Space,
    /// Number of the revision, or `newest` for the newest complete one
    #[arg(long, value_name = "N", value_parser = revision, default_value = "newest")]
    pub revision: Revision,
    /// Your name or the reason; `ls` and `show` print it
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = note)]
    pub note: String,
    /// End the hold after TIME: 90s, 30m, 12h, 7d, 2w
    #[arg(long = "for", value_name = "TIME", value_parser = super::time)]
    pub time: Option<Duration>,
    /// How long to try: until a job at work accepts the hold, or until a revision stays long enough to be held
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = super::time)]
    pub wait: Duration,
    /// Only print the plan; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

fn note(text: &str) -> Result<String, String> {
    match mainstay_engine::space::format::is_note(text) {
        true => Ok(text.to_owned()),
        false => Err("it is longer than 512 bytes or has control characters".to_owned()),
    }
}

/// End the holds on a revision
///
/// Ends all holds on the revision. It goes when the job next needs its room, or when you remove it with
/// `mainstay prune`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Release {
    #[command(flatten)]
    pub space: Space,
    /// Number of the revision, or `newest`; repeat for several
    #[arg(long = "revision", value_name = "N", value_parser = revision, required_unless_present = "all", conflicts_with = "all")]
    pub revisions: Vec<Revision>,
    /// Release every held revision
    #[arg(long)]
    pub all: bool,
    /// Only print the plan; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Remove revisions that you no longer need
///
/// By rules: a revision stays if any rule names it, if it is held, or if it is the newest complete one. Incomplete
/// revisions older than that one are removed. By name, with --revision: these are removed, and all others stay. `prune`
/// treats all levels in sight, or none. It refuses while a job has the space open; if a revision that you named is
/// held, or is the newest complete one of a level; and if a killed job may have staged a revision in memory that this
/// machine cannot see.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("rule").required(true).multiple(true))]
#[command(after_help = format!("\
Examples:
  mainstay prune /scratch/me/space --keep-last 3
  mainstay prune /scratch/me/space --keep-last 2 --keep-every 10 --older-than 7d --dry-run
  mainstay prune /scratch/me/space --revision 3 --revision 5

{EXIT_CODES}"))]
pub struct Prune {
    #[command(flatten)]
    pub space: Space,
    /// Keep the K newest complete revisions
    #[arg(long, visible_alias = "keep", value_name = "K", group = "rule", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_last: Option<u64>,
    /// Keep complete revisions with a number that is a multiple of M
    #[arg(long, value_name = "M", group = "rule", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_every: Option<u64>,
    /// Remove only revisions older than AGE: 90s, 30m, 12h, 7d, 2w
    #[arg(long, value_name = "AGE", group = "rule", value_parser = super::time)]
    pub older_than: Option<Duration>,
    /// Remove this revision, instead of using rules; repeat for several
    #[arg(long = "revision", value_name = "N", value_parser = revision, group = "rule", conflicts_with_all = ["keep_last", "keep_every", "older_than"])]
    pub revisions: Vec<Revision>,
    /// Go on even if a killed job may have staged a revision in the memory of other nodes. That revision is lost
    #[arg(long)]
    pub give_up_staged: bool,
    /// Do not ask first. `prune` asks only on a terminal, never in a script
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Only print the plan; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Go back to a revision for good: remove all newer ones, on all levels
///
/// The revision and older ones stay, and the next start goes on from it. `rollback` refuses, and changes nothing, if a
/// newer revision is held, while a job has the space open, or if it cannot read files of the space or the directory of
/// a level. It cannot remove newer revisions in the memory or on the disks of other nodes: a record in the space makes
/// every later start ignore them. If it is interrupted between two levels, newer revisions remain on the others: run
/// the same command again.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay rollback /scratch/me/space --revision 12 --dry-run
  mainstay rollback /scratch/me/space --revision 12

{EXIT_CODES}"))]
pub struct Rollback {
    #[command(flatten)]
    pub space: Space,
    /// Number of the revision, which must be complete, or `newest` to remove only newer incomplete ones
    #[arg(long, value_name = "N", value_parser = revision)]
    pub revision: Revision,
    /// Go on even if a killed job may have staged a revision in the memory of other nodes. That revision is lost, too
    #[arg(long)]
    pub give_up_staged: bool,
    /// Do not ask first. `rollback` asks only on a terminal, never in a script
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Only print the plan; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Complete revisions that killed jobs had staged but not yet written
///
/// Reads the pools in this machine's memory, as the next start of each job does by itself: for SPACE, or with --all for
/// all spaces of this user. Without either it lists the pools, changes nothing, and exits with 0. A shard is lost if
/// its space went on without it, or if a byte of it is missing. `salvage` leaves a space alone that a job has open. It
/// removes pools that hold nothing more, and gives the reason for each pool that stays.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay salvage                       lists the pools that this user's jobs left on this machine
  mainstay salvage /scratch/me/space     completes the revisions of one space
  mainstay salvage --all                 completes those of all spaces
  mainstay salvage --all --clean         also gives up the data of missing spaces

{EXIT_CODES}"))]
pub struct Salvage {
    /// The space: the directory that the job opened
    #[arg(value_name = "SPACE")]
    pub space: Option<PathBuf>,
    /// Salvage all spaces of this user with staged data on this machine
    #[arg(long, conflicts_with = "space")]
    pub all: bool,
    /// Also remove pools that are damaged, or that belong to a missing space. Their staged data is lost
    #[arg(long)]
    pub clean: bool,
    /// Only print the plan; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Directory of the pools. Default: the setting pool_directory
    #[arg(long, value_name = "DIR")]
    pub pool_directory: Option<PathBuf>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}
