//! The data that a salvager needs to complete a shard as its own process would have.

use crate::{
    commit::{Allocation, RevisionKey},
    space::format::PhaseRecord,
};
use serde::{Deserialize, Serialize};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// Written at t2, under the seal. It is untrusted all the same: a seal is a checksum, not a signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedPlan {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    /// The number of this shard among the `shards`, and of its portion in every space.
    pub(crate) shard: u32,
    /// The encoded `Contents` of the staged shard.
    #[serde(with = "serde_bytes")]
    pub(crate) contents: Vec<u8>,
    /// The paths of the contents' output files, in their order; they are synced before the shard is published.
    pub(crate) outputs: Vec<Vec<u8>>,
    /// Times known at t2.
    pub(crate) phases: PhaseRecord,
    /// The targets of the shard, nearest first; at least one.
    pub(crate) targets: Vec<SealedTarget>,
}

/// A target of a sealed shard: its portion of one space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedTarget {
    /// The path of the space's directory, any bytes but zero.
    pub(crate) space: Vec<u8>,
    /// The number of the file system that the space is on; 0 if it is on none.
    pub(crate) file_system: u64,
    pub(crate) layout_id: [u8; 16],
    /// The sequence of the portion's newest slot at t1. A salvager goes on only if that slot is still the newest, or if
    /// the newest is one that this revision wrote.
    pub(crate) sequence: u64,
    pub(crate) allocation: Allocation,
    /// The revisions that every root must keep until this one is known to be complete.
    pub(crate) retained: Vec<RevisionKey>,
    /// Revisions held by other processes; kept in addition to `retained`.
    pub(crate) held: Vec<RevisionKey>,
}

impl SealedTarget {
    pub(crate) fn space(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.space))
    }
}
