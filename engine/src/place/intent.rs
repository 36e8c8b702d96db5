//! What is to be saved, and who writes it where: fixed at t1, before anything is staged.

use crate::{
    capture::{Marked, Size},
    commit::RevisionKey,
    ground::Instant,
};

/// One shard of a revision, as it is to be saved.
#[derive(Debug)]
pub(crate) struct Intent {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    /// The number of this shard among the `shards`, and of its portion in every space.
    pub(crate) shard: u32,
    pub(crate) size: Size,
    pub(crate) outputs: Vec<Marked>,
    /// t1 of the checkpoint.
    pub(crate) started: Instant,
}

impl Intent {
    /// The tag by which chunks and the record know what belongs to this shard. It has as much of the revision's number
    /// as a chunk's word has room for, and the shard's number, as one process may have several shards of a revision
    /// under way.
    pub(super) fn tag(&self) -> u32 {
        self.key.number as u32 ^ self.shard << 16
    }
}

/// Who writes a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Here,
    /// The rank that holds the target.
    Rank(usize),
}
