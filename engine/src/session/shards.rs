//! Reading what other ranks have saved: the shards of the revision that was restored.
//!
//! What must hold: as of streams, nothing is read once a checkpoint has begun.

use super::{
    choice::Chosen,
    copies::Search,
    entry::Call,
    flaws::{Flaws, split_flaws},
    inner::Inner,
    level::{Level, LevelKind, Levels},
};
use crate::{
    capture::is_note_of_globals,
    commit::RevisionKey,
    error::{Error, Result, named},
    group::{Group, agree, gather},
    restore::{BlockReader, Saved, Stored},
    space::{
        Portion,
        format::{Entry, Item, Note},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Whose shards of the revision that was restored this rank can read by itself (`Session::shards`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardsHere {
    /// How many shards the revision has: so many ranks saved it.
    pub count: u32,
    /// Those that lie in the memory of this rank's node, own or copies, or in files that it sees, and those that were
    /// brought here; ascending.
    pub here: Vec<u32>,
}

/// What a shard consists of (`Session::shard`).
#[derive(Debug, Clone, Default)]
pub struct ShardItems {
    /// Without their extents.
    pub items: Vec<Item>,
    /// What the rank that saved it had noted.
    pub notes: BTreeMap<String, String>,
}

/// Where they lie.
#[derive(Default)]
pub(super) struct Shards {
    /// The revision, and the nearest level that it was read from.
    of: Option<(LevelKind, Chosen)>,
    lying: BTreeMap<u32, (Portion, Entry)>,
    /// Those that were brought here, whole.
    brought: BTreeSet<u32>,
    /// Of all shards, once the ranks have told each other: the same on all of them.
    told: BTreeMap<u32, ShardItems>,
    opened: BTreeMap<u32, Opened>,
}

/// A shard as a rank tells the others of it: where it lies, and what it consists of.
type Told = (usize, [u8; 16], Saved);

struct Opened {
    items: Vec<Item>,
    blocks: BlockReader,
    /// The item that was read last.
    last: Option<(String, Stored)>,
}

impl Inner {
    /// Has this rank read the shards `wanted`, whole, wherever they lie, and all ranks know what each shard consists of.
    /// Collective, with what each rank wants.
    pub(super) fn bring_shards(&mut self, wanted: &[u32]) -> Result<()> {
        let ready = self.program.ready().and_then(|()| self.program.shards.check(wanted));
        let entry = self.enter_ready(Call::BringShards, ready)?;
        let (group, shards) = (self.epoch.group.with(&entry), &mut self.program.shards);
        let Some((_, chosen)) = shards.of.clone() else { return Ok(()) };
        if shards.told.is_empty() {
            let told = self.levels.tell_shards(group, &chosen)?;
            for (level, layout, saved) in told {
                let shard = saved.entry.shard;
                if !chosen.is_searched
                    && let Some(portion) = self.levels.at(level).portion_of(layout, shard)
                {
                    shards.lying.entry(shard).or_insert((portion, saved.entry));
                }
                shards.told.entry(shard).or_insert_with(|| ShardItems::of(saved.items, saved.notes));
            }
        }
        let is_there = |shard: &u32| match chosen.is_searched {
            // One that is damaged here may be whole elsewhere, and is verified before it is called there.
            true => shards.brought.contains(shard),
            false => shards.lying.contains_key(shard),
        };
        let lacking: BTreeSet<u32> = wanted.iter().copied().filter(|shard| !is_there(shard)).collect();
        let mut lacks = [lacking.len() as u64];
        group.all_max(&mut lacks)?;
        if lacks == [0] {
            return Ok(());
        }
        let mut search = Search::begin(group, &self.levels, &chosen)?;
        match search.bring_to(group, &mut self.epoch.post, &self.levels, lacking)? {
            Ok(brought) => shards.take(brought.into_iter().map(|(portion, kept)| (portion, kept.entry.clone()))),
            Err(flaws) => return Err(flaws.nothing_left(self.levels.at(chosen.level).device.path())),
        }
        Ok(())
    }
}

impl Levels {
    /// What all shards of what was `chosen` consist of, and where ranks see them: each shard at least once. Collective.
    fn tell_shards(&self, group: &dyn Group, chosen: &Chosen) -> Result<Vec<Told>> {
        let complete = &chosen.complete;
        let (mut mine, mut flaws) = (Vec::new(), Flaws::default());
        let mut failed = Ok(());
        for &index in &chosen.on {
            self.at(index).each_ledger(|ledger| {
                for kept in ledger.found().into_iter().filter(|kept| kept.key() == complete.key) {
                    let portion = ledger.portion();
                    match split_flaws(portion.read_manifest(&kept.entry)) {
                        Ok(Ok(manifest)) => {
                            mine.push((index, portion.layout_id(), Saved::of(&kept.entry, &manifest)));
                        }
                        Ok(Err(what)) => flaws.add(what.of(&format!("shard {}", kept.entry.shard))),
                        Err(error) => failed = Err(error),
                    }
                }
            });
        }
        agree(group, failed)?;
        let told: Vec<Told> = gather(group, &mine)?.concat();
        let flaws = Flaws::united(gather(group, &flaws)?);
        let is_told = |shard: &u32| told.iter().any(|(.., saved)| saved.entry.shard == *shard);
        match (0..complete.shards).find(|shard| !is_told(shard)) {
            None => Ok(told),
            Some(shard) if flaws.is_empty() => {
                let path = self.at(chosen.level).device.path();
                Err(Error::OutOfSight { path, revision: complete.key.number, shard })
            }
            Some(_) => Err(flaws.nothing_left(self.at(chosen.level).device.path())),
        }
    }
}

impl Level {
    /// The portion of the shard in the layout, if this rank sees that.
    pub(super) fn portion_of(&self, layout: [u8; 16], shard: u32) -> Option<Portion> {
        let layouts = self.layouts.iter().filter(|file| file.header.layout_id == layout);
        layouts.flat_map(|file| file.portions()).find(|portion| portion.rank() == shard)
    }
}

impl ShardItems {
    fn of(items: Vec<Item>, notes: Vec<Note>) -> ShardItems {
        let notes = notes.into_iter().filter(|note| !is_note_of_globals(note));
        ShardItems { items, notes: notes.map(|note| (note.name, note.value)).collect() }
    }
}

impl Shards {
    /// Those of the revision that was `chosen`, on all levels on which its shards lie, and those `seen` besides.
    pub(super) fn find(levels: &Levels, chosen: &Chosen, seen: BTreeMap<u32, (Portion, Entry)>) -> Shards {
        let key = chosen.complete.key;
        let mut lying = seen;
        // What was brought for the restore counts, and then the nearest.
        let brought = levels.at(chosen.level).fetched.iter().filter(|(_, kept)| kept.key() == key);
        lying.extend(brought.map(|(portion, kept)| (kept.entry.shard, (portion.clone(), kept.entry.clone()))));
        for level in chosen.on.iter().map(|index| levels.at(*index)) {
            level.each_ledger(|ledger| {
                for kept in ledger.found().into_iter().filter(|kept| kept.key() == key) {
                    let here = || (ledger.portion().clone(), kept.entry.clone());
                    lying.entry(kept.entry.shard).or_insert_with(here);
                }
            });
        }
        let of = Some((levels.at(chosen.level).kind, chosen.clone()));
        Shards { of, lying, ..Shards::default() }
    }

    /// Which revision they are of, and from which level that was read; `None` before a restore and after the next checkpoint
    /// has begun.
    pub(super) fn of(&self) -> Option<(LevelKind, RevisionKey)> {
        self.of.as_ref().map(|(kind, chosen)| (*kind, chosen.complete.key))
    }

    fn count(&self) -> u32 {
        self.of.as_ref().map_or(0, |(_, chosen)| chosen.complete.shards)
    }

    pub(super) fn here(&self) -> ShardsHere {
        ShardsHere { count: self.count(), here: self.lying.keys().copied().collect() }
    }

    /// Refuses shards that are none, or all of them where nothing was restored.
    fn check(&self, wanted: &[u32]) -> Result<()> {
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

    /// From now on these are read where they were brought to.
    fn take(&mut self, brought: impl Iterator<Item = (Portion, Entry)>) {
        for (portion, entry) in brought {
            let shard = entry.shard;
            self.opened.remove(&shard);
            self.brought.insert(shard);
            self.lying.insert(shard, (portion, entry));
        }
    }

    /// What a shard consists of.
    pub(super) fn items(&mut self, shard: u32) -> Result<ShardItems> {
        if let Some(told) = self.told.get(&shard) {
            return Ok(told.clone());
        }
        let (portion, entry) = self.lying.get(&shard).ok_or_else(|| not_here(shard))?;
        let manifest = portion.read_manifest(entry)?;
        let Saved { items, notes, .. } = Saved::of(entry, &manifest);
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
            self.opened.insert(shard, Opened { items: manifest.items, blocks, last: None });
        }
        let revision = self.of.as_ref().map_or(0, |(_, chosen)| chosen.complete.key.number);
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

fn not_here(shard: u32) -> Error {
    let why = "this rank cannot read it now; bring it here with bring_shards, on all ranks, between a restore and the next \
               checkpoint";
    Error::argument(format!("shard {shard}"), why)
}
