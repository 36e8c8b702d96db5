//! What is to be saved of a shard, fixed at t1, and what was staged of it, known at t2.

use crate::{
    capture::{Marked, Size},
    commit::{Allocation, Need, RevisionKey},
    space::format::{Annex, BLOCK_BYTES, HASH_BYTES, Item, PhaseRecord, blocks_for},
};
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// What is to be saved, and where it goes.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    pub(crate) size: Size,
    pub(crate) outputs: Vec<Marked>,
    pub(crate) allocation: Allocation,
    /// What every root must keep until this revision is known to be complete.
    pub(crate) retained: Vec<RevisionKey>,
    /// The space's directory.
    pub(crate) space: PathBuf,
    /// That holds the space, as its device tells it.
    pub(crate) file_system: u64,
    /// t1.
    pub(crate) started: Instant,
}

/// What was staged, known at t2.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) items: Vec<Item>,
    /// Blocks of the log.
    pub(crate) blocks: u64,
    pub(crate) annex: Annex,
}

/// What staging took of the program's time.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Staged {
    pub(crate) buffer_wait: Duration,
    pub(crate) copy: Duration,
    pub(crate) chunks: u64,
}

impl Staged {
    pub(super) fn noted_in(self, phases: PhaseRecord) -> PhaseRecord {
        PhaseRecord {
            buffer_wait_ns: self.buffer_wait.as_nanos() as u64,
            copy_ns: self.copy.as_nanos() as u64,
            chunks: self.chunks,
            ..phases
        }
    }
}

impl Plan {
    /// Blocks that a shard of this size needs when its data lies in at most `runs` runs.
    pub(crate) fn need(size: &Size, runs: usize) -> Need {
        let manifest = blocks_for(size.manifest_bytes_at_most(runs));
        Need { data: size.blocks(), meta: hash_blocks_for(size.blocks()) + manifest }
    }

    /// Of the revision's number, what a chunk's word has room for; and of the shard's, as one process may have several
    /// of a revision under way.
    pub(crate) fn tag(&self, shard: u32) -> u32 {
        self.key.number as u32 ^ shard << 16
    }

    /// Where in the metadata the manifest begins: bytes of the rows of hashes.
    pub(crate) fn manifest_in_meta(&self) -> u64 {
        hash_blocks_for(self.size.blocks()) * BLOCK_BYTES
    }
}

fn hash_blocks_for(blocks: u64) -> u64 {
    blocks_for(blocks * HASH_BYTES as u64)
}
