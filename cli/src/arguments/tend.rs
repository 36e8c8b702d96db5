//! Looking after a space: `checkpoint`, `evacuate`, `hold`, `release`, `prune`, `rollback`, `salvage`.

use super::{EXIT_CODES, Revision, Space, revision};
use clap::{ArgGroup, Args};
use std::{path::PathBuf, time::Duration};

/// Has the job that runs on a space save itself now, and go on
///
/// At its next safe point, where the program calls mainstay_due. Waits until the revision is complete.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Checkpoint {
    #[command(flatten)]
    pub space: Space,
    /// How long to wait ("90 s", "5 min")
    #[arg(long, value_name = "TIME", default_value = "1 min", value_parser = super::time)]
    pub timeout: Duration,
}

/// Moves all objects of a running job off a node that is about to fail; the job goes on
///
/// For programs that are made of objects that move. At the job's next safe point, where the program calls mainstay_due and
/// mainstay_objects_checkpoint, the objects on that node go to the others, and a checkpoint saves them there. Waits until
/// its revision is complete: what fails then on the node takes no object along. No object comes back to the node later.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay status /scratch/me/space          which nodes there are
  mainstay evacuate /scratch/me/space n17

{EXIT_CODES}"))]
pub struct Evacuate {
    #[command(flatten)]
    pub space: Space,
    /// The node, as `mainstay status` names it
    #[arg(value_name = "NODE")]
    pub node: String,
    /// How long to wait ("90 s", "5 min")
    #[arg(long, value_name = "TIME", default_value = "1 min", value_parser = super::time)]
    pub timeout: Duration,
}

/// Has a revision stay, whatever the job keeps, until it is released
///
/// The newest complete one, unless another is asked for. Where no job has the space open, that counts at
/// once. A job at work takes it on at its next checkpoint: `hold` waits for that for a while, and says
/// whether it counts. A hold that would leave no room for the next checkpoint is refused.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay hold /scratch/me/space --note 'before the change of grid'
  mainstay hold /scratch/me/space --revision 12 --for 7d

{EXIT_CODES}"))]
pub struct Hold {
    #[command(flatten)]
    pub space: Space,
    /// The revision of this number; newest: the newest complete one
    #[arg(long, value_name = "N", value_parser = revision, default_value = "newest")]
    pub revision: Revision,
    /// Who holds it, or why; `ls` and `show` print it
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = note)]
    pub note: String,
    /// The hold ends by itself after so long a time: 90s, 30m, 12h, 7d, 2w
    #[arg(long = "for", value_name = "TIME", value_parser = super::time)]
    pub time: Option<Duration>,
    /// How long to try: until a job at work takes the hold on, or a revision stays for long enough
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = super::time)]
    pub wait: Duration,
    /// Only says what would be done; changes nothing
    #[arg(long)]
    pub dry_run: bool,
}

fn note(text: &str) -> Result<String, String> {
    match mainstay_engine::space::format::is_note(text) {
        true => Ok(text.to_owned()),
        false => Err("it is longer than 512 bytes or has control characters".to_owned()),
    }
}

/// Lets a revision go that was held
///
/// All its holds end. It goes when the job next needs its place, or with `mainstay prune`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Release {
    #[command(flatten)]
    pub space: Space,
    /// The number of the revision, or `newest`; may be given several times
    #[arg(long = "revision", value_name = "N", value_parser = revision, required_unless_present = "all", conflicts_with = "all")]
    pub revisions: Vec<Revision>,
    /// Every revision that is held
    #[arg(long)]
    pub all: bool,
    /// Only says what would be done; changes nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Lets go of revisions that nobody wants
///
/// By rules: a revision stays if any of them names it, if it is held, or if it is the newest complete one. Incomplete
/// ones go if they are older than that. Or by name, with --revision: these go, and all others stay. They go on all levels that
/// are in sight, or nowhere: the command is refused while a job has the space open, where a revision that was named is held or
/// the newest complete one of a level, and where a job that was killed may have staged a revision in memory that is not seen
/// here.
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
    /// The K newest complete revisions stay
    #[arg(long, visible_alias = "keep", value_name = "K", group = "rule", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_last: Option<u64>,
    /// Complete revisions whose number is a multiple of M stay
    #[arg(long, value_name = "M", group = "rule", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_every: Option<u64>,
    /// Only what was saved longer ago goes: 90s, 30m, 12h, 7d, 2w
    #[arg(long, value_name = "AGE", group = "rule", value_parser = super::time)]
    pub older_than: Option<Duration>,
    /// In place of rules: the revision of this number goes; may be given several times
    #[arg(long = "revision", value_name = "N", value_parser = revision, group = "rule", conflicts_with_all = ["keep_last", "keep_every", "older_than"])]
    pub revisions: Vec<Revision>,
    /// Goes on where a killed job may have staged a revision in the memory of other nodes: that is lost
    #[arg(long)]
    pub give_up_staged: bool,
    /// Does not ask first. Only a terminal is asked: a script goes on without
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Only says what would be done; changes nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Goes back to a revision for good: newer ones go, on all levels
///
/// The revision and older ones stay, and the next start goes on from it. Refused where a newer revision is held, while a job has
/// the space open, and where files of the space or the directory of a level cannot be looked at: then nothing is changed. Newer
/// revisions in the memory or on the disks of other nodes are left out by what is noted in the space. Cut off between two levels,
/// it has left newer revisions on the others: the same command again finishes.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay rollback /scratch/me/space --revision 12 --dry-run
  mainstay rollback /scratch/me/space --revision 12

{EXIT_CODES}"))]
pub struct Rollback {
    #[command(flatten)]
    pub space: Space,
    /// The number of the revision, which is complete, or `newest`: only what is newer and incomplete goes
    #[arg(long, value_name = "N", value_parser = revision)]
    pub revision: Revision,
    /// Goes on where a killed job may have staged a revision in the memory of other nodes: that goes, too
    #[arg(long)]
    pub give_up_staged: bool,
    /// Does not ask first. Only a terminal is asked: a script goes on without
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Only says what would be done; changes nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Completes what killed jobs had staged and not yet written
///
/// From the pools in this machine's memory, as the next start of each job does by itself: of SPACE, or with
/// --all of all spaces of this user. With neither it lists what there is and changes nothing. A shard whose space
/// went on without it is lost, and so is one with a byte missing; a space that a job has open is left to it. Pools
/// that hold nothing more are removed; of those that stay it says why. What only lists ends with 0, whatever it
/// finds.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay salvage                       what this user's jobs left on this machine
  mainstay salvage /scratch/me/space     completes that of one space
  mainstay salvage --all                 and of all
  mainstay salvage --all --clean         and gives up what waits for a space that is gone

{EXIT_CODES}"))]
pub struct Salvage {
    /// The directory that a session was opened on
    #[arg(value_name = "SPACE")]
    pub space: Option<PathBuf>,
    /// Of all spaces of this user that something was staged for on this machine
    #[arg(long, conflicts_with = "space")]
    pub all: bool,
    /// Removes also pools that are damaged, or whose space is not there: what was staged for it is lost
    #[arg(long)]
    pub clean: bool,
    /// Only says what would be done; changes nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Where the pools are, if not where pool_directory says
    #[arg(long, value_name = "DIR")]
    pub pool_directory: Option<PathBuf>,
    /// One JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}
