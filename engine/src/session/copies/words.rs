//! What a ward tells its holder.

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
    /// How large the ward's next shard is, at most.
    Size(Box<Size>),
    /// The pieces of a shard come next.
    Shard(Box<Announced>),
    /// The pieces of parts of a shard come next.
    Parts(Box<AnnouncedParts>),
    /// There is nothing to copy to the level with this number.
    GivenUp(usize, Failure),
}

/// A shard as it was published at its owner.
#[derive(Serialize, Deserialize)]
pub(in crate::session) struct Announced {
    /// The number of the level that the copy is for.
    pub(in crate::session) level: usize,
    pub(super) key: RevisionKey,
    pub(super) shards: u32,
    /// The encoded `Contents`.
    pub(super) contents: Vec<u8>,
    /// Of the hashes of all blocks of the log.
    pub(super) hash: Hash,
    pub(super) phases: PhaseRecord,
    /// The holder has all other blocks of the log than these, first and count, in a revision that is complete on its level;
    /// `None`: all come.
    pub(super) carried: Option<(RevisionKey, Vec<(u64, u64)>)>,
    /// Where in the log of what comes each piece belongs, and how many bytes it has.
    pub(super) pieces: Vec<(u64, u64)>,
}

/// Parts of a shard as they lie in its portion.
#[derive(Serialize, Deserialize)]
pub(in crate::session) struct AnnouncedParts {
    /// The number of the level that they come from.
    pub(super) level: usize,
    pub(super) entry: Entry,
    pub(super) shape: PortionShape,
    /// The blocks, as the shard's runs count them.
    pub(super) blocks: Vec<Range<u64>>,
    /// What is stored of them, of the rows of their hashes, and of the manifest: ascending stretches of blocks of the portion.
    pub(super) stored: Vec<Range<u64>>,
    /// How many bytes each piece has; one after the other they are all that.
    pub(super) pieces: Vec<u64>,
}
