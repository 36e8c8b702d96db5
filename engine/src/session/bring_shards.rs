//! Brings the shards that a rank wants to read of the restored revision, from any level or rank.

use super::{
    chosen::Chosen,
    damage::{Damage, Unreadable, intact},
    entry::Call,
    fetch::Search,
    levels::Levels,
    state::SessionState,
};
use crate::{
    error::{Error, Result},
    group::{Group, agree, gather, gather_unequal},
    restore::SavedShard,
};
use std::collections::{BTreeMap, BTreeSet};

/// A shard as a rank reports it: its level, its layout, and its contents.
type DescribedShard = (usize, [u8; 16], SavedShard);

impl SessionState {
    /// Makes the shards `wanted` readable on this rank, whole, from any level or rank. Afterwards all ranks know the
    /// contents of each shard. Ranks may want different shards. Collective.
    pub(super) fn bring_shards(&mut self, wanted: &[u32]) -> Result<()> {
        let ready = self.program.ready().and_then(|()| self.program.restored.shards.check(wanted));
        let entry = self.enter_ready(Call::BringShards, ready)?;
        let (group, shards) = (self.epoch.group.with(&entry), &mut self.program.restored.shards);
        let Some((_, chosen)) = shards.of.clone() else { return Ok(()) };
        if !shards.reader.knows_all() {
            let mut contents = BTreeMap::new();
            for (level, layout, saved) in self.levels.describe_shards(group, &chosen)? {
                let shard = saved.entry.shard;
                if !chosen.is_searched
                    && !shards.reader.is_here(shard)
                    && let Some(portion) = self.levels.at(level).portion_of(layout, shard)
                {
                    shards.reader.read_at(portion, saved.entry.clone());
                }
                contents.entry(shard).or_insert(saved);
            }
            shards.reader.know_all(contents.into_values().collect());
        }
        let is_there = |shard: &u32| match chosen.is_searched {
            // A shard that is damaged here may be whole elsewhere. It counts as present only once it is verified.
            true => shards.brought.contains(shard),
            false => shards.reader.is_here(*shard),
        };
        let lacking: BTreeSet<u32> = wanted.iter().copied().filter(|shard| !is_there(shard)).collect();
        let mut lacks = [lacking.len() as u64];
        group.all_max(&mut lacks)?;
        if lacks == [0] {
            return Ok(());
        }
        if !self.levels.can_exchange(group)? {
            let (path, revision) = (self.levels.at(chosen.level).location.device.path(), chosen.complete.key.number);
            let lacks = |shard: &u32| Err(Error::OutOfSight { path: path.clone(), revision, shard: *shard });
            return agree(group, lacking.first().map_or(Ok(()), lacks));
        }
        let mut search = Search::begin(group, &self.levels, &chosen)?;
        match search.bring_to(group, &mut self.epoch.post, &self.levels, lacking) {
            Ok(brought) => shards.take(brought.into_iter().map(|(portion, kept)| (portion, kept.entry.clone()))),
            Err(Unreadable::Damage(damage)) => {
                return Err(damage.nothing_left(self.levels.at(chosen.level).location.device.path()));
            }
            Err(Unreadable::Error(error)) => return Err(error),
        }
        Ok(())
    }
}

impl Levels {
    /// The contents of all shards of the `chosen` revision, and the places where ranks see them; each shard at least
    /// once. Collective.
    fn describe_shards(&self, group: &dyn Group, chosen: &Chosen) -> Result<Vec<DescribedShard>> {
        let complete = &chosen.complete;
        let (mut mine, mut damage) = (Vec::new(), Damage::default());
        let mut failed = Ok(());
        for &index in &chosen.on {
            self.at(index).each_ledger(|ledger| {
                for kept in ledger.found().into_iter().filter(|kept| kept.key() == complete.key) {
                    let portion = ledger.portion();
                    match intact(portion.read_manifest(&kept.entry)) {
                        Ok(Ok(manifest)) => {
                            mine.push((index, portion.layout_id(), SavedShard::of(&kept.entry, &manifest)));
                        }
                        Ok(Err(what)) => damage.add(what.of(&format!("shard {}", kept.entry.shard))),
                        Err(error) => failed = Err(error),
                    }
                }
            });
        }
        agree(group, failed)?;
        let described: Vec<DescribedShard> = gather(group, &mine)?.concat();
        let damage = Damage::united(gather_unequal(group, &damage)?);
        let is_described = |shard: &u32| described.iter().any(|(.., saved)| saved.entry.shard == *shard);
        match (0..complete.shards).find(|shard| !is_described(shard)) {
            None => Ok(described),
            Some(shard) if damage.is_empty() => {
                let path = self.at(chosen.level).location.device.path();
                Err(Error::OutOfSight { path, revision: complete.key.number, shard })
            }
            Some(_) => Err(damage.nothing_left(self.at(chosen.level).location.device.path())),
        }
    }
}
