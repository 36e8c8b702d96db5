//! Room before a job needs it: `reserve`, `grow`.

use super::{EXIT_CODES, Space};
use bytesize::ByteSize;
use clap::{ArgGroup, Args};
use mainstay_engine::group::RANKS_MAX;
use std::path::PathBuf;

/// Reserves a space before the first checkpoint
///
/// With room for keep+2 revisions in each rank's portion, as the first checkpoint of a job makes it. A job of
/// as many ranks finds it there. What is not given here is taken from the settings (mainstay.toml and the
/// environment). Tells what the file system really granted.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay reserve /scratch/me/space --ranks 64 --per-rank 20MiB --keep 1
  mainstay reserve /scratch/me/space --sizes 20MiB,30MiB,20MiB
  mainstay reserve /scratch/me/space --like /scratch/me/earlier --per node --ranks-per-node 16
  mainstay reserve /cephfs/me/space --ranks 64 --per-rank 20MiB --stripe-count 4 --stripe-size 1MiB

{EXIT_CODES}"))]
pub struct Reserve {
    #[command(flatten)]
    pub room: Room,
}

/// Gives a space more bytes a rank, or more ranks
///
/// A new layout beside the one that is there: the next job goes on from the old one's newest revision and saves
/// into the new one, and the old one goes once nothing in it is kept or held. Refused while a job has the space
/// open.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay grow /scratch/me/space --per-rank 40MiB
  mainstay grow /scratch/me/space --ranks 128

{EXIT_CODES}"))]
pub struct Grow {
    #[command(flatten)]
    pub room: Room,
}

/// The room that a space is to have.
#[derive(Debug, Args)]
pub struct Room {
    #[command(flatten)]
    pub space: Space,
    #[command(flatten)]
    pub sizes: Sizes,
    #[command(flatten)]
    pub placing: Placing,
    /// Only says what would be done; changes nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How large the shards are going to be.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("state").multiple(false))]
pub struct Sizes {
    /// Ranks of the job
    #[arg(long, value_name = "N", value_parser = ranks)]
    pub ranks: Option<usize>,
    /// Bytes that each rank saves ("20MiB"); with many regions add 4 KiB for each, with pieces say --pieces
    #[arg(long, value_name = "SIZE", group = "state", value_parser = size)]
    pub per_rank: Option<u64>,
    /// As large, rank by rank, as the newest complete revision of this space
    #[arg(long, value_name = "SPACE", group = "state")]
    pub like: Option<PathBuf>,
    /// Bytes that each rank saves, from rank 0 on
    #[arg(long, value_name = "SIZE,...", group = "state", value_delimiter = ',', value_parser = size)]
    pub sizes: Option<Vec<u64>>,
    /// The same from a file, apart by white space or commas
    #[arg(long, value_name = "FILE", group = "state")]
    pub sizes_from: Option<PathBuf>,
    /// So many bytes of each rank are written in pieces (mainstay_begin), whose list takes room
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub pieces: u64,
}

/// Where it lies, and how hard it is promised: settings.
#[derive(Debug, Args)]
pub struct Placing {
    /// Complete revisions that are kept: there is room for two more
    #[arg(long, value_name = "K")]
    pub keep: Option<String>,
    /// Which ranks share a file; auto: those of a node on CephFS, else all
    #[arg(long, value_parser = ["auto", "app", "node", "rank"])]
    pub per: Option<String>,
    /// Ranks of a node, consecutive ones: needed for one file a node
    #[arg(long, value_name = "K", value_parser = ranks)]
    pub ranks_per_node: Option<usize>,
    /// How hard the room is promised: not at all, by blocks set aside, by zeros that are written
    #[arg(long, value_parser = ["sparse", "blocks", "zero"])]
    pub allocate: Option<String>,
    /// CephFS and Lustre: over how many servers a file is striped
    #[arg(long, value_name = "N")]
    pub stripe_count: Option<String>,
    /// CephFS and Lustre: bytes of a stripe, on which portions begin ("1MiB")
    #[arg(long, value_name = "SIZE")]
    pub stripe_size: Option<String>,
}

/// "20MiB", or a number of bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let size = text.trim().parse::<ByteSize>();
    size.map(|size| size.as_u64()).map_err(|_| format!("{text:?} is no size, such as 20MiB or 20971520"))
}

fn ranks(text: &str) -> Result<usize, String> {
    let ranks = text.parse().ok().filter(|ranks| (1..=RANKS_MAX).contains(ranks));
    ranks.ok_or_else(|| format!("it takes 1 to {RANKS_MAX}"))
}
