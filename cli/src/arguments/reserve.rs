//! Room before a job needs it: `reserve`, `grow`.

use super::{EXIT_CODES, Space};
use bytesize::ByteSize;
use clap::{ArgGroup, Args};
use mainstay_engine::group::RANKS_MAX;
use std::path::PathBuf;

/// Reserve the room of a space before the first checkpoint
///
/// Each rank's portion gets room for keep+2 revisions, as at the first checkpoint of a job. A job with the same number
/// of ranks finds the room there. Values that you leave out come from the settings (mainstay.toml and the environment).
/// `reserve` prints the room that the file system really granted.
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

/// Give a space more bytes for each rank, or more ranks
///
/// Adds a new layout beside the old one. The next job goes on from the newest revision in the old layout and saves to
/// the new one. The old layout goes when no revision in it is kept or held. `grow` refuses while a job has the space
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

/// The room of a space.
#[derive(Debug, Args)]
pub struct Room {
    #[command(flatten)]
    pub space: Space,
    #[command(flatten)]
    pub sizes: Sizes,
    #[command(flatten)]
    pub placing: Placing,
    /// Only print the plan; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Sizes of the shards.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("state").multiple(false))]
pub struct Sizes {
    /// Number of ranks of the job
    #[arg(long, value_name = "N", value_parser = ranks)]
    pub ranks: Option<usize>,
    /// Bytes that each rank saves ("20MiB"). Add 4 KiB for each region if there are many; for pieces give --pieces
    #[arg(long, value_name = "SIZE", group = "state", value_parser = size)]
    pub per_rank: Option<u64>,
    /// Take the sizes, rank by rank, from the newest complete revision of this space
    #[arg(long, value_name = "SPACE", group = "state")]
    pub like: Option<PathBuf>,
    /// Bytes of each rank, starting with rank 0
    #[arg(long, value_name = "SIZE,...", group = "state", value_delimiter = ',', value_parser = size)]
    pub sizes: Option<Vec<u64>>,
    /// The same from a file, separated by white space or commas
    #[arg(long, value_name = "FILE", group = "state")]
    pub sizes_from: Option<PathBuf>,
    /// Bytes of each rank that are written in pieces (mainstay_begin); the list of pieces needs room
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub pieces: u64,
}

/// Placement of the files, and how firmly the room is reserved. These are settings.
#[derive(Debug, Args)]
pub struct Placing {
    /// Number of complete revisions to keep. There is room for two more
    #[arg(long, value_name = "K")]
    pub keep: Option<String>,
    /// Which ranks share a file. auto: the ranks of a node on CephFS, otherwise all ranks
    #[arg(long, value_parser = ["auto", "app", "node", "rank"])]
    pub per: Option<String>,
    /// Number of consecutive ranks on a node; needed for one file for each node
    #[arg(long, value_name = "K", value_parser = ranks)]
    pub ranks_per_node: Option<usize>,
    /// How firmly to reserve: sparse (no reservation), blocks (allocated blocks), zero (written zeros)
    #[arg(long, value_parser = ["sparse", "blocks", "zero"])]
    pub allocate: Option<String>,
    /// CephFS and Lustre: number of servers that a file is striped over
    #[arg(long, value_name = "N")]
    pub stripe_count: Option<String>,
    /// CephFS and Lustre: bytes of a stripe; portions begin at a stripe ("1MiB")
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
