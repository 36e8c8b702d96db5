//! Data of the restore under way, if shards are searched one by one: shards of this rank, shards from other ranks, and
//! the facts that all ranks have exchanged.

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

/// A shard that another rank reports to all, and that this rank has too, on a level or a copy.
pub(super) struct SharedShard {
    /// The index of this place in the shard's list of locations.
    pub(super) location: usize,
    pub(super) portion: Portion,
    pub(super) kept: Arc<Kept>,
}

/// The parts of a shard that this rank reads, as another rank has sent them.
pub(super) struct ShardParts {
    /// The index of their origin in the shard's list of locations.
    pub(super) location: usize,
    pub(super) portion: Portion,
    pub(super) entry: Entry,
    /// The blocks, in the numbering of the shard's runs.
    pub(super) blocks: Vec<Range<u64>>,
}

/// The items that this rank needs of shards that it lacks.
pub(super) type WantedShards = BTreeMap<u32, Vec<WantedItem>>;

/// A shard that this rank reports to all.
pub(super) struct OwnShard {
    pub(super) portion: Portion,
    pub(super) manifest: Manifest,
    pub(super) saved: SavedShard,
}

/// The facts that all ranks have exchanged about the shards, and the shards that this rank reports. Kept until missing
/// shards have come.
pub(super) struct ToldShards {
    pub(super) own: Vec<OwnShard>,
    pub(super) shards: Vec<SavedShard>,
    /// Hashes of the items that are the same on all ranks if their bytes are equal, by shard and name.
    pub(super) contents: BTreeMap<(u32, String), Hash>,
}

impl SharedShard {
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
