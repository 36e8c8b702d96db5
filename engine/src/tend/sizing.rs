//! The expected size of a shard, as far as known before there is a job.

use crate::{
    capture::Size,
    error::{Error, Result},
    place::portion_blocks,
    printable::printable,
    survey::SpaceSurvey,
};
use std::path::Path;

/// More bytes than any file has.
const SHARD_BYTES_MAX: u64 = 1 << 60;

/// The room that a shard needs.
#[derive(Debug, Clone)]
pub struct ShardSize(Size);

impl ShardSize {
    /// The size of a state of `bytes` bytes, `in_pieces` of them written in pieces, which need a longer manifest.
    pub fn of(bytes: u64, in_pieces: u64) -> Result<ShardSize> {
        if bytes > SHARD_BYTES_MAX {
            return Err(Error::argument("bytes of a rank", format!("{bytes} is more than any file holds")));
        }
        if in_pieces > bytes {
            let why = format!("{in_pieces} is more than the {bytes} bytes of the rank, of which they are a part");
            return Err(Error::argument("bytes in pieces", why));
        }
        Ok(ShardSize(Size::of_bytes(bytes, in_pieces)))
    }

    /// Sizes of shards with the items of the newest complete revision of the space in `directory`, one for each rank.
    pub fn like(directory: &Path) -> Result<Vec<ShardSize>> {
        let survey = SpaceSurvey::open(directory)?;
        let gone = || {
            Error::argument(
                printable(&survey.path),
                "its newest complete revision was removed while it was read; try again",
            )
        };
        let Some(newest) = survey.newest() else {
            return Err(Error::argument(
                printable(&survey.path),
                "it has no complete revision from which to learn the sizes",
            ));
        };
        let size = |shard: &crate::survey::ShardSurvey| {
            let manifest = shard.manifest()?.ok_or_else(gone)?;
            Ok(ShardSize(Size::of_items(manifest.items, manifest.annex)))
        };
        newest.shards.iter().map(size).collect()
    }

    /// Number of blocks of a portion with room for keep+2 such shards.
    pub(super) fn portion_blocks(&self, keep: u32) -> u64 {
        portion_blocks(&self.0, None, keep + 2)
    }
}
