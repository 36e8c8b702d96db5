//! What a rank reads in the restore under way, where shards are looked for one by one: what it has of them itself, what
//! others have sent, and what all have told each other.

use crate::{
    commit::Kept,
    error::Result,
    restore::{HashRows, SavedShard, WantedItem, pour, pour_blocks},
    space::{
        Portion,
        format::{Entry, Hash, Manifest},
    },
};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// A shard of which another rank tells, and which this one has itself, on one of the levels or copies.
pub(super) struct Beside {
    /// The number of that spot among those of the shard.
    pub(super) spot: usize,
    pub(super) portion: Portion,
    pub(super) kept: Arc<Kept>,
}

/// The parts of a shard that this rank reads, as another one has sent them.
pub(super) struct ShardParts {
    /// The number of the spot that they come from among those of the shard.
    pub(super) spot: usize,
    pub(super) portion: Portion,
    pub(super) entry: Entry,
    /// The blocks, as the shard's runs count them.
    pub(super) blocks: Vec<Range<u64>>,
}

/// What this rank reads of shards that it lacks.
pub(super) type WantedShards = BTreeMap<u32, Vec<WantedItem>>;

/// A shard that this rank looks after.
pub(super) struct OwnShard {
    pub(super) portion: Portion,
    pub(super) manifest: Manifest,
    pub(super) saved: SavedShard,
}

/// What all ranks have told each other of the shards, and what this rank told of: it stays for the time when those come that
/// ranks lack.
pub(super) struct ToldShards {
    pub(super) own: Vec<OwnShard>,
    pub(super) shards: Vec<SavedShard>,
    /// Hashes of the items that count as the same on all ranks if their bytes are, by shard and name.
    pub(super) contents: BTreeMap<(u32, String), Hash>,
}

impl Beside {
    pub(super) fn verify(&self) -> Result<()> {
        pour(&self.portion, &self.portion.read_manifest(&self.kept.entry)?, &|_, _| ())
    }
}

impl ShardParts {
    pub(super) fn verify(&self) -> Result<()> {
        let manifest = self.portion.read_manifest(&self.entry)?;
        let rows = &mut HashRows::new(manifest.runs.len());
        pour_blocks(&self.portion, &manifest, rows, &self.blocks, &|_, _| ())
    }
}
