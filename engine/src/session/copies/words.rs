//! The messages of an owner to its holder.

use crate::{
    capture::Size,
    commit::RevisionKey,
    error::Failure,
    space::{
        PortionShape,
        format::{Entry, Hash, PhaseRecord},
    },
};
use serde::{Deserialize, Serialize};
use std::ops::Range;

#[derive(Serialize, Deserialize)]
pub(in crate::session) enum CopyWord {
    /// The largest size of the owner's next shard.
    Size(Box<Size>),
    /// The pieces of a shard come next.
    Shard(Box<Announced>),
    /// The pieces of parts of a shard come next.
    Parts(Box<AnnouncedParts>),
    /// There is no shard to copy to the level with this index.
    GivenUp(usize, Failure),
}

/// A shard, as its owner published it.
#[derive(Serialize, Deserialize)]
pub(in crate::session) struct Announced {
    /// The index of the copy's level.
    pub(in crate::session) level: usize,
    pub(super) key: RevisionKey,
    pub(super) shards: u32,
    /// The encoded `Contents`.
    pub(super) contents: Vec<u8>,
    /// The hash of the hashes of all blocks of the log.
    pub(super) hash: Hash,
    pub(super) phases: PhaseRecord,
    /// The blocks of the log that come, as first block and count. The holder has all others in this revision, which is
    /// complete on its level. `None`: all blocks come.
    pub(super) carried: Option<(RevisionKey, Vec<(u64, u64)>)>,
    /// For each piece, its offset in the log of the sent blocks, and its length.
    pub(super) pieces: Vec<(u64, u64)>,
}

/// Parts of a shard, at their places in the portion.
#[derive(Serialize, Deserialize)]
pub(in crate::session) struct AnnouncedParts {
    /// The index of the level that they come from.
    pub(super) level: usize,
    pub(super) entry: Entry,
    pub(super) shape: PortionShape,
    /// The blocks, in the numbering of the shard's runs.
    pub(super) blocks: Vec<Range<u64>>,
    /// The stored data of these blocks, of their hashes, and of the manifest: ascending stretches of blocks of the
    /// portion.
    pub(super) stored: Vec<Range<u64>>,
    /// The length of each piece; together the pieces are `stored`.
    pub(super) pieces: Vec<u64>,
}
