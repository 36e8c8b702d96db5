//! The shards that ranks report and send each other while they read one revision, and the facts that they exchange.
//!
//! Invariant: all of it belongs to one revision, and is dropped when that revision is read or passed over.

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

/// A shard, and its portion.
pub(super) type StoredShard = (Portion, Arc<Kept>);

/// The shards that this rank reports, receives or wants while the ranks read one revision.
#[derive(Default)]
pub(super) struct ShardTransfers {
    /// Whole shards that other ranks sent, or that lie on another level of this rank.
    pub(super) received: Vec<StoredShard>,
    /// The shards that this rank reports to the others, if shards are searched on several levels or copies.
    pub(super) reported: Option<Vec<StoredShard>>,
    /// Shards that other ranks report, in portions that this rank sees too.
    pub(super) in_sight: Vec<(u32, Portion)>,
    /// Shards that other ranks report and that this rank has too, on one of the levels.
    pub(super) shared: Vec<SharedShard>,
    /// Parts of shards from other ranks.
    pub(super) parts: Vec<ShardParts>,
    /// The items that this rank has to read and does not have yet.
    pub(super) wanted: WantedShards,
    /// The contents of the shards as all ranks exchanged them, kept until the wanted items come.
    pub(super) descriptions: Option<ShardDescriptions>,
}

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

/// The contents of all shards of a revision, as the ranks that see them describe them.
pub(super) struct ShardDescriptions {
    /// The shards that this rank describes.
    pub(super) own: Vec<OwnShard>,
    pub(super) shards: Vec<SavedShard>,
    /// Hashes of the items that are the same on all ranks if their bytes are equal, by shard and name.
    pub(super) contents: BTreeMap<(u32, String), Hash>,
}

impl ShardTransfers {
    /// The shard of `rank`, if this rank received it whole.
    pub(super) fn whole(&self, rank: u32) -> Option<StoredShard> {
        self.received.iter().find(|(_, kept)| kept.entry.shard == rank).cloned()
    }

    /// The shards that this rank received whole, by number.
    pub(super) fn received_by_number(&self) -> BTreeMap<u32, (Portion, Entry)> {
        self.received.iter().map(numbered).collect()
    }

    /// The shards of which this rank received parts, by number.
    pub(super) fn parts_by_number(&self) -> BTreeMap<u32, (Portion, Entry)> {
        let parts = self.parts.iter();
        parts.map(|parts| (parts.entry.shard, (parts.portion.clone(), parts.entry.clone()))).collect()
    }

    /// The whole shards that this rank can read, by number; `None` if shards are not searched one by one. `shards`: the
    /// descriptions of all.
    pub(super) fn readable(&self, shards: &[SavedShard]) -> Option<BTreeMap<u32, (Portion, Entry)>> {
        let own = self.reported.as_ref()?.iter().chain(&self.received).map(numbered);
        let entry = |shard: u32| shards.get(shard as usize).map(|saved| saved.entry.clone());
        let in_sight = self.in_sight.iter();
        let in_sight = in_sight.filter_map(|(shard, at)| Some((*shard, (at.clone(), entry(*shard)?))));
        let shared = self.shared.iter().map(|SharedShard { portion, kept, .. }| (portion, &kept.entry));
        let shared = shared.map(|(portion, entry)| (entry.shard, (portion.clone(), entry.clone())));
        Some(in_sight.chain(shared).chain(own).collect())
    }
}

fn numbered((portion, kept): &StoredShard) -> (u32, (Portion, Entry)) {
    (kept.entry.shard, (portion.clone(), kept.entry.clone()))
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
