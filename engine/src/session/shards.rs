//! Reads shards of other ranks in the restored revision.
//!
//! Invariant: as with streams, nothing is read once a checkpoint has begun.

use super::{chosen::Chosen, level::LevelKind, levels::Levels};
use crate::{
    capture::is_own_note,
    commit::RevisionKey,
    error::{Error, Result, named},
    restore::{BlockReader, SavedShard, Stored},
    space::{
        Portion,
        format::{Entry, Item, Note},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// The shards of the restored revision that this rank can read by itself (`Session::shards`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardsHere {
    /// Number of shards in the revision: the number of ranks that saved it.
    pub count: u32,
    /// The readable shards, ascending: own shards and copies in the memory of this rank's node, shards in files that it
    /// sees, and shards brought here.
    pub here: Vec<u32>,
}

/// The contents of a shard (`Session::shard`).
#[derive(Debug, Clone, Default)]
pub struct ShardItems {
    /// The items without their extents.
    pub items: Vec<Item>,
    /// The notes of the rank that saved the shard.
    pub notes: BTreeMap<String, String>,
}

/// The places of the shards.
#[derive(Default)]
pub(super) struct Shards {
    /// The revision, and the nearest level from which it was read.
    pub(super) of: Option<(LevelKind, Chosen)>,
    pub(super) lying: BTreeMap<u32, (Portion, Entry)>,
    /// Shards that were brought here whole.
    pub(super) brought: BTreeSet<u32>,
    /// The contents of all shards, once the ranks have exchanged them: the same on all ranks.
    pub(super) told: BTreeMap<u32, ShardItems>,
    opened: BTreeMap<u32, OpenShard>,
}

struct OpenShard {
    items: Vec<Item>,
    blocks: BlockReader,
    /// The item that was read last.
    last: Option<(String, Stored)>,
}

impl ShardItems {
    pub(super) fn of(items: Vec<Item>, notes: Vec<Note>) -> ShardItems {
        let notes = notes.into_iter().filter(|note| !is_own_note(note));
        ShardItems { items, notes: notes.map(|note| (note.name, note.value)).collect() }
    }
}

impl Shards {
    /// The shards of the revision `chosen`, on all levels that have some, and the shards `seen` besides.
    pub(super) fn find(levels: &Levels, chosen: &Chosen, seen: BTreeMap<u32, (Portion, Entry)>) -> Shards {
        let key = chosen.complete.key;
        let mut lying = seen;
        // Shards brought for the restore come first, then those on the nearest level.
        let brought = levels.at(chosen.level).arrivals.fetched.iter().filter(|(_, kept)| kept.key() == key);
        lying.extend(brought.map(|(portion, kept)| (kept.entry.shard, (portion.clone(), kept.entry.clone()))));
        for level in chosen.on.iter().map(|index| levels.at(*index)) {
            level.each_ledger(|ledger| {
                for kept in ledger.found().into_iter().filter(|kept| kept.key() == key) {
                    let here = || (ledger.portion().clone(), kept.entry.clone());
                    lying.entry(kept.entry.shard).or_insert_with(here);
                }
            });
        }
        let of = Some((levels.at(chosen.level).location.kind, chosen.clone()));
        Shards { of, lying, ..Shards::default() }
    }

    /// The revision of the shards, and the level from which it was read. `None` before a restore, and once the next
    /// checkpoint has begun.
    pub(super) fn of(&self) -> Option<(LevelKind, RevisionKey)> {
        self.of.as_ref().map(|(kind, chosen)| (*kind, chosen.complete.key))
    }

    fn count(&self) -> u32 {
        self.of.as_ref().map_or(0, |(_, chosen)| chosen.complete.shards)
    }

    pub(super) fn here(&self) -> ShardsHere {
        ShardsHere { count: self.count(), here: self.lying.keys().copied().collect() }
    }

    /// Refuses numbers beyond the last shard, and every number if nothing was restored.
    pub(super) fn check(&self, wanted: &[u32]) -> Result<()> {
        if self.of.is_none() {
            let why = "nothing was restored, or a checkpoint has begun since; call it between the two";
            return Err(Error::argument("bring_shards", why));
        }
        let count = self.count();
        match wanted.iter().find(|shard| **shard >= count) {
            None => Ok(()),
            Some(shard) => {
                let why = format!("the revision that was restored has the shards 0 to {}", count - 1);
                Err(Error::argument(format!("shard {shard}"), why))
            }
        }
    }

    /// Reads these shards from now on where they were brought.
    pub(super) fn take(&mut self, brought: impl Iterator<Item = (Portion, Entry)>) {
        for (portion, entry) in brought {
            let shard = entry.shard;
            self.opened.remove(&shard);
            self.brought.insert(shard);
            self.lying.insert(shard, (portion, entry));
        }
    }

    /// The contents of a shard.
    pub(super) fn items(&mut self, shard: u32) -> Result<ShardItems> {
        if let Some(told) = self.told.get(&shard) {
            return Ok(told.clone());
        }
        let (portion, entry) = self.lying.get(&shard).ok_or_else(|| not_here(shard))?;
        let manifest = portion.read_manifest(entry)?;
        let SavedShard { items, notes, .. } = SavedShard::of(entry, &manifest);
        Ok(ShardItems::of(items, notes))
    }

    pub(super) fn read(&mut self, shard: u32, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        let (stored, blocks) = self.item(shard, name)?;
        stored.read(offset, into, blocks)
    }

    pub(super) fn bytes(&mut self, shard: u32, name: &str) -> Result<u64> {
        self.item(shard, name).map(|(stored, _)| stored.bytes)
    }

    fn item(&mut self, shard: u32, name: &str) -> Result<(&Stored, &mut BlockReader)> {
        if !self.opened.contains_key(&shard) {
            let (portion, entry) = self.lying.get(&shard).ok_or_else(|| not_here(shard))?;
            let manifest = portion.read_manifest(entry)?;
            let blocks = BlockReader::new(portion.clone(), &manifest);
            self.opened.insert(shard, OpenShard { items: manifest.items, blocks, last: None });
        }
        let revision = self.of.as_ref().map_or(0, |(_, chosen)| chosen.complete.key.number);
        let Some(OpenShard { items, blocks, last }) = self.opened.get_mut(&shard) else {
            unreachable!("it was opened")
        };
        let stored = match last.take_if(|(last, _)| last == name) {
            Some(same) => same.1,
            None => {
                let item = items.iter().find(|item| item.name == name).ok_or_else(|| {
                    let there = named(items.iter().map(|item| item.name.as_str()));
                    let why = format!("shard {shard} of revision {revision} has none of this name; it has: {there}");
                    Error::argument(format!("item {name:?}"), why)
                })?;
                Stored::of(item)
            }
        };
        Ok((&last.insert((name.to_owned(), stored)).1, blocks))
    }
}

fn not_here(shard: u32) -> Error {
    let why = "this rank cannot read it now; bring it here with bring_shards, on all ranks, between a restore and the next \
               checkpoint";
    Error::argument(format!("shard {shard}"), why)
}
