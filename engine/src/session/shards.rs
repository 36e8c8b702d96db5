//! Reading what other ranks have saved: the shards of the revision that was restored which this rank can read by itself.
//!
//! What must hold: as of streams, nothing is read once a checkpoint has begun.

use super::{
    choice::Chosen,
    level::{LevelKind, Levels},
};
use crate::{
    commit::RevisionKey,
    error::{Error, Result, named},
    restore::{BlockReader, Stored},
    space::{
        Portion,
        format::{Entry, Item},
    },
};
use std::collections::BTreeMap;

/// Whose shards of the revision that was restored this rank can read by itself (`Session::shards`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardsHere {
    /// How many shards the revision has: so many ranks saved it.
    pub count: u32,
    /// Those that lie in the memory of this rank's node, own or copies, or in files that it sees; ascending.
    pub here: Vec<u32>,
}

/// Where they lie.
#[derive(Default)]
pub(super) struct Shards {
    /// The revision, and the level that it was read from.
    of: Option<(LevelKind, RevisionKey)>,
    count: u32,
    lying: BTreeMap<u32, (Portion, Entry)>,
    opened: BTreeMap<u32, Opened>,
}

struct Opened {
    items: Vec<Item>,
    blocks: BlockReader,
    /// The item that was read last.
    last: Option<(String, Stored)>,
}

impl Shards {
    /// Those of the revision that was `chosen`: of all levels that are one level and its copies, and those `seen` besides.
    pub(super) fn find(levels: &Levels, chosen: &Chosen, seen: BTreeMap<u32, (Portion, Entry)>) -> Shards {
        let key = chosen.complete.key;
        let mut lying = seen;
        let family = levels.families().into_iter().find(|family| family.start == chosen.level).unwrap_or_default();
        for level in family.map(|index| levels.at(index)) {
            let brought = level.fetched.iter().filter(|(_, kept)| kept.key() == key);
            lying.extend(brought.map(|(portion, kept)| (kept.entry.shard, (portion.clone(), kept.entry.clone()))));
            level.each_ledger(|ledger| {
                let kept = ledger.found().into_iter().filter(|kept| kept.key() == key);
                lying.extend(kept.map(|kept| (kept.entry.shard, (ledger.portion().clone(), kept.entry.clone()))));
            });
        }
        let of = Some((levels.at(chosen.level).kind, key));
        Shards { of, count: chosen.complete.shards, lying, opened: BTreeMap::new() }
    }

    /// Which revision they are of, and from which level that was read; `None` before a restore and after the next checkpoint
    /// has begun.
    pub(super) fn of(&self) -> Option<(LevelKind, RevisionKey)> {
        self.of
    }

    pub(super) fn here(&self) -> ShardsHere {
        ShardsHere { count: self.count, here: self.lying.keys().copied().collect() }
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
            let (portion, entry) = self.lying.get(&shard).ok_or_else(|| {
                let why = "this rank cannot read it now; Session::shards lists those that it can, from a restore to the next \
                           checkpoint";
                Error::argument(format!("shard {shard}"), why)
            })?;
            let manifest = portion.read_manifest(entry)?;
            let blocks = BlockReader::new(portion.clone(), &manifest);
            self.opened.insert(shard, Opened { items: manifest.items, blocks, last: None });
        }
        let revision = self.of.map_or(0, |(_, key)| key.number);
        let Some(Opened { items, blocks, last }) = self.opened.get_mut(&shard) else { unreachable!("it was opened") };
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
