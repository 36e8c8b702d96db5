//! What a salvager must know to complete a shard as its own process would have.

use crate::{
    commit::RevisionKey,
    space::{format::Lineage, free::Blocks},
};
use serde::{Deserialize, Serialize};

/// Written at t2, under the seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedPlan {
    /// The space's directory.
    pub(crate) space: Vec<u8>,
    pub(crate) layout_id: [u8; 16],
    /// Whose portion it goes to.
    pub(crate) portion: u32,
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    pub(crate) item_bytes: u64,
    /// The newest slot as it was at t1: a salvager goes on only if it still is.
    pub(crate) newest: SlotSeen,
    pub(crate) allocation: PlannedAllocation,
    /// What every root must keep until this revision is known to be complete.
    pub(crate) retained: Vec<RevisionKey>,
    /// Built with hashes of rows that are zero.
    pub(crate) manifest: Vec<u8>,
    /// Where it lies in the metadata.
    pub(crate) manifest_in_meta: u64,
    /// Output files that are synced before the shard is published.
    pub(crate) outputs: Vec<Vec<u8>>,
    pub(crate) phases: PlannedPhases,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotSeen {
    pub(crate) sequence: u64,
    pub(crate) lineage: Lineage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedAllocation {
    pub(crate) freeing: Vec<Blocks>,
    pub(crate) catalogue: Blocks,
    pub(crate) meta: Blocks,
    pub(crate) data: Vec<Blocks>,
}

/// What is known of the phases at t2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedPhases {
    pub(crate) t1_unix_ns: u64,
    pub(crate) communication_ns: u64,
    pub(crate) buffer_wait_ns: u64,
    pub(crate) copy_ns: u64,
    pub(crate) resume_ns: u64,
    pub(crate) perceived_ns: u64,
    pub(crate) chunks: u64,
}
