//! The shard to be saved, as it is fixed at t1, before anything is staged.

use crate::{
    capture::{Marked, Size},
    commit::RevisionKey,
    ground::Instant,
};

/// One shard of a revision that is to be saved.
#[derive(Debug)]
pub(crate) struct ShardSpec {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    /// The number of this shard among the `shards`, and of its portion in every space.
    pub(crate) shard: u32,
    pub(crate) size: Size,
    pub(crate) outputs: Vec<Marked>,
    /// t1 of the checkpoint.
    pub(crate) started: Instant,
}

impl ShardSpec {
    /// The tag by which chunks and the record recognize this shard. It combines the low part of the revision's number,
    /// as far as a chunk's word has room, with the shard's number: one process may have several shards of a revision in
    /// progress.
    pub(super) fn tag(&self) -> u32 {
        self.key.number as u32 ^ self.shard << 16
    }
}
