//! Bringing ranks the shards of the revision that was restored which they want to read, wherever those lie.

use super::{
    entry::Call,
    fetch::Search,
    flaws::{Flaws, split_flaws},
    inner::Inner,
    level::Level,
    levels::Levels,
    shards::ShardItems,
};
use crate::{
    commit::Complete,
    error::{Error, Result},
    group::{Group, agree, gather},
    restore::SavedShard,
    space::Portion,
};
use std::{collections::BTreeSet, ops::Range};

/// A shard as a rank tells the others of it: where it lies, and what it consists of.
type ToldShard = (usize, [u8; 16], SavedShard);

impl Inner {
    /// Has this rank read the shards `wanted`, whole, wherever they lie, and all ranks know what each shard consists of.
    /// Collective, with what each rank wants.
    pub(super) fn bring_shards(&mut self, wanted: &[u32]) -> Result<()> {
        let ready = self.program.ready().and_then(|()| self.program.shards.check(wanted));
        let entry = self.enter_ready(Call::BringShards, ready)?;
        let (group, shards) = (self.epoch.group.with(&entry), &mut self.program.shards);
        let Some((kind, complete)) = shards.of else { return Ok(()) };
        let families = self.levels.families().into_iter();
        let family = families.into_iter().find(|family| self.levels.at(family.start).kind == kind).unwrap_or_default();
        if shards.told.is_empty() {
            let told = self.levels.tell_shards(group, family.clone(), &complete)?;
            let is_alone = family.len() == 1;
            for (level, layout, saved) in told {
                let shard = saved.entry.shard;
                if is_alone && let Some(portion) = self.levels.at(level).portion_of(layout, shard) {
                    shards.lying.entry(shard).or_insert((portion, saved.entry));
                }
                shards.told.entry(shard).or_insert_with(|| ShardItems::of(saved.items, saved.notes));
            }
        }
        let is_there = |shard: &u32| match family.len() {
            // One that is damaged here may be whole in a copy, and is verified before it is called there.
            2.. => shards.brought.contains(shard),
            _ => shards.lying.contains_key(shard),
        };
        let lacking: BTreeSet<u32> = wanted.iter().copied().filter(|shard| !is_there(shard)).collect();
        let mut lacks = [lacking.len() as u64];
        group.all_max(&mut lacks)?;
        if lacks == [0] {
            return Ok(());
        }
        let mut search = Search::begin(group, &self.levels, family.clone(), &complete)?;
        match search.bring_to(group, &mut self.epoch.post, &self.levels, lacking)? {
            Ok(brought) => shards.take(brought.into_iter().map(|(portion, kept)| (portion, kept.entry.clone()))),
            Err(flaws) => return Err(flaws.nothing_left(self.levels.at(family.start).device.path())),
        }
        Ok(())
    }
}

impl Levels {
    /// What all shards of `complete` consist of, and where in the levels of `family` ranks see them: each shard at least
    /// once. Collective.
    fn tell_shards(&self, group: &dyn Group, family: Range<usize>, complete: &Complete) -> Result<Vec<ToldShard>> {
        let (mut mine, mut flaws) = (Vec::new(), Flaws::default());
        let mut failed = Ok(());
        for index in family.clone() {
            self.at(index).each_ledger(|ledger| {
                for kept in ledger.found().into_iter().filter(|kept| kept.key() == complete.key) {
                    let portion = ledger.portion();
                    match split_flaws(portion.read_manifest(&kept.entry)) {
                        Ok(Ok(manifest)) => {
                            mine.push((index, portion.layout_id(), SavedShard::of(&kept.entry, &manifest)));
                        }
                        Ok(Err(what)) => flaws.add(what.of(&format!("shard {}", kept.entry.shard))),
                        Err(error) => failed = Err(error),
                    }
                }
            });
        }
        agree(group, failed)?;
        let told: Vec<ToldShard> = gather(group, &mine)?.concat();
        let flaws = Flaws::united(gather(group, &flaws)?);
        let is_told = |shard: &u32| told.iter().any(|(.., saved)| saved.entry.shard == *shard);
        match (0..complete.shards).find(|shard| !is_told(shard)) {
            None => Ok(told),
            Some(shard) if flaws.is_empty() => {
                let path = self.at(family.start).device.path();
                Err(Error::OutOfSight { path, revision: complete.key.number, shard })
            }
            Some(_) => Err(flaws.nothing_left(self.at(family.start).device.path())),
        }
    }
}

impl Level {
    /// The portion of the shard in the layout, if this rank sees that.
    fn portion_of(&self, layout: [u8; 16], shard: u32) -> Option<Portion> {
        let layouts = self.layouts.iter().filter(|file| file.header.layout_id == layout);
        layouts.flat_map(|file| file.portions()).find(|portion| portion.rank() == shard)
    }
}
