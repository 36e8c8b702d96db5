//! What a salvager must know to complete a shard as its own process would have.

use crate::{
    commit::{Allocation, RevisionKey},
    space::format::PhaseRecord,
};
use serde::{Deserialize, Serialize};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// Written at t2, under the seal. Hostile all the same: a seal is a checksum, no signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedPlan {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    /// Which of them it is: the number of its portion in every space.
    pub(crate) shard: u32,
    /// What was staged, as `Contents` are told.
    pub(crate) contents: Vec<u8>,
    /// Where the output files of the contents lie, in their order: synced before the shard is published.
    pub(crate) outputs: Vec<Vec<u8>>,
    /// As far as they are known at t2.
    pub(crate) phases: PhaseRecord,
    /// At least one, nearest first.
    pub(crate) targets: Vec<SealedTarget>,
}

/// Where a shard goes: to its portion of one space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedTarget {
    /// The space's directory, any bytes but zero.
    pub(crate) space: Vec<u8>,
    /// Number of the file system that it is on; 0 if it is on none.
    pub(crate) file_system: u64,
    pub(crate) layout_id: [u8; 16],
    /// Of the portion's newest slot at t1: a salvager goes on only if that is the newest still, or one that
    /// this revision wrote.
    pub(crate) sequence: u64,
    pub(crate) allocation: Allocation,
    /// What every root must keep until this revision is known to be complete.
    pub(crate) retained: Vec<RevisionKey>,
    /// Held by other processes; kept in addition to `retained`.
    pub(crate) held: Vec<RevisionKey>,
}

impl SealedTarget {
    pub(crate) fn space(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.space))
    }
}
