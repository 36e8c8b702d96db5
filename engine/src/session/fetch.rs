//! Reads shards that a rank does not see, or sees damaged: another rank sends the shard, or the needed parts. This rank
//! then reads them from memory as from any level.
//!
//! Invariants: all ranks choose the same senders; a rank reads no data that it has not verified itself.

use super::{
    chosen::Chosen,
    copies::Post,
    damage::{Attempted, Damage, Unreadable},
    exchange::{ReceivedShard, ShardRequest, exchange, here},
    levels::Levels,
    shard_transfers::{ShardTransfers, SharedShard, StoredShard, WantedShards},
};
use crate::{
    commit::Complete,
    error::{Error, Result},
    group::{Group, agree, gather, gather_unequal},
    restore::{WantedItem, pour},
    space::Portion,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A place of a shard: a rank, on a level or a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShardLocation {
    /// The index of the level and its copies as a group, the nearest first.
    family: usize,
    level: usize,
    rank: usize,
    layout: [u8; 16],
    /// The lowest rank of those that see the same files.
    leader: usize,
}

/// A shard on a rank, as the rank reports it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct ReportedShard {
    shard: u32,
    level: usize,
    layout: [u8; 16],
    leader: usize,
}

/// The search for the shards of one revision. Each shard may have several locations.
pub(super) struct Search {
    /// The level that receives the shards.
    home: usize,
    candidate: Complete,
    /// The locations of each shard, the best first.
    locations: Vec<Vec<ShardLocation>>,
    /// The locations of each shard that were tried in vain.
    vain: Vec<BTreeSet<usize>>,
    /// For each shard that this rank got whole, the index of its location.
    got: BTreeMap<usize, usize>,
}

/// A shard, one of its locations, and the damage there.
type ReportedDamage = (usize, usize, Damage);

impl Search {
    /// Gathers the places of the shards of the `chosen` revision from all ranks. Collective.
    pub(super) fn begin(group: &dyn Group, levels: &Levels, chosen: &Chosen) -> Result<Search> {
        let candidate = &chosen.complete;
        let mut mine: Vec<ReportedShard> = Vec::new();
        for &level in &chosen.on {
            let leader = levels.at(level).location.domain.leader();
            levels.at(level).each_ledger(|ledger| {
                let kept = ledger.found().into_iter().filter(|kept| kept.key() == candidate.key);
                let layout = ledger.portion().layout_id();
                mine.extend(kept.map(|kept| ReportedShard { shard: kept.entry.shard, level, layout, leader }));
            });
        }
        let families = levels.families();
        let family_of = |level: usize| families.iter().position(|family| family.contains(&level));
        let mut locations = vec![Vec::new(); candidate.shards as usize];
        for (rank, reported) in gather(group, &mine)?.into_iter().enumerate() {
            for ReportedShard { shard, level, layout, leader } in reported {
                let family = family_of(level).filter(|_| chosen.on.contains(&level));
                if let (Some(locations), Some(family)) = (locations.get_mut(shard as usize), family) {
                    locations.push(ShardLocation { family, level, rank, layout, leader });
                }
            }
        }
        let is_same = candidate.shards as usize == group.size();
        for (shard, locations) in locations.iter_mut().enumerate() {
            // The nearest level comes first. Within a level, shards that their own rank sees come first: they need no
            // message.
            locations.sort_by_key(|location| {
                (location.family, is_same && location.rank != shard, location.level, location.rank)
            });
            locations.dedup_by_key(|location| (location.level, location.rank));
        }
        Ok(Search {
            home: chosen.level,
            candidate: *candidate,
            vain: vec![BTreeSet::new(); locations.len()],
            got: BTreeMap::new(),
            locations,
        })
    }

    /// The levels and copies where a shard was tried in vain, ascending; the same on all ranks.
    pub(super) fn levels_in_vain(&self) -> Vec<usize> {
        let tried = self.locations.iter().zip(&self.vain);
        let tried = tried.flat_map(|(locations, vain)| vain.iter().filter_map(|location| locations.get(*location)));
        let levels: BTreeSet<usize> = tried.map(|location| location.level).collect();
        levels.into_iter().collect()
    }

    /// The portions of shards that other ranks report, in files that this rank sees too.
    fn in_sight(&self, levels: &Levels, rank: usize) -> Vec<(u32, Portion)> {
        let portion = |shard: usize| {
            let location = self.location(shard)?;
            let level = levels.at(location.level);
            let is_here = location.rank != rank && location.leader == level.location.domain.leader();
            is_here.then(|| level.portion_of(location.layout, shard as u32)).flatten().map(|at| (shard as u32, at))
        };
        (0..self.locations.len()).filter_map(portion).collect()
    }

    /// The locations of `shard` that were not tried in vain, with their indices, the best first.
    fn left(&self, shard: usize) -> impl Iterator<Item = (usize, &ShardLocation)> {
        self.locations[shard].iter().enumerate().filter(move |(number, _)| !self.vain[shard].contains(number))
    }

    /// The best location of `shard`; its rank reports the shard to the others.
    fn location(&self, shard: usize) -> Option<ShardLocation> {
        self.left(shard).next().map(|(_, location)| *location)
    }

    /// The sender for each of `wants`: a rank, the shard that it wants, and the items (`None`: the whole shard). Only
    /// locations on the nearest level with the shard count. A rank with the shard needs no sender. Otherwise the rank that
    /// was asked for the least so far sends it, so the ranks share the work. An error if a shard has no location left.
    fn senders(&self, wants: Vec<(usize, usize, Option<Vec<WantedItem>>)>) -> Result<Vec<ShardRequest>> {
        let mut asked = BTreeMap::<usize, u64>::new();
        let mut found = Vec::with_capacity(wants.len());
        for (to, shard, items) in wants {
            let nearest = self.location(shard).map(|location| location.family);
            let near = || self.left(shard).filter(|(_, location)| Some(location.family) == nearest);
            let own = near().find(|(_, location)| location.rank == to);
            let least =
                || near().min_by_key(|(number, location)| (asked.get(&location.rank).copied().unwrap_or(0), *number));
            let Some((location, at)) = own.or_else(least) else { return Err(super::copies::out_of_turn(to)) };
            let (level, from) = (at.level, at.rank);
            if from != to {
                let bytes = items.as_ref().map_or(1, |items| items.iter().map(WantedItem::bytes).sum());
                *asked.entry(from).or_default() += bytes;
            }
            found.push(ShardRequest { to, shard, items, location, level, from });
        }
        Ok(found)
    }

    /// Whether `rank` reports the shard to the others, in a revision of another number of ranks.
    fn reports(&self, rank: usize, shard: usize) -> bool {
        self.location(shard).is_some_and(|location| location.rank == rank)
    }

    /// The shards that this rank has but does not report, unless they are known to be damaged.
    fn shared(&self, levels: &Levels, rank: usize, reports: impl Fn(usize) -> bool) -> Vec<SharedShard> {
        let own = |shard: usize| {
            let nearest = self.location(shard)?.family;
            let mut near = self.left(shard).filter(|(_, location)| location.family == nearest && location.rank == rank);
            let (portion, kept, location) = near.find_map(|(number, location)| {
                let (portion, kept) = here(levels, location.level, shard, &self.candidate).ok()?;
                Some((portion, kept, number))
            })?;
            Some(SharedShard { location, portion, kept })
        };
        (0..self.locations.len()).filter(|shard| !reports(*shard)).filter_map(own).collect()
    }

    /// Whether each rank reads its own shard, and no other as far as is known.
    fn is_by_rank(&self, group: &dyn Group) -> bool {
        self.locations.len() == group.size()
    }

    /// Brings each rank its shard from the best location that is not known to be damaged. For a revision of another number
    /// of ranks: brings the shards that this rank reports. The result is damage if a shard has no location left.
    /// Collective.
    pub(super) fn bring(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &Levels,
        transfers: &mut ShardTransfers,
        damage: &mut Damage,
    ) -> Attempted<()> {
        loop {
            if let Some(shard) = (0..self.locations.len()).find(|shard| self.location(*shard).is_none()) {
                if damage.is_empty() {
                    let (path, revision) = (levels.at(self.home).location.device.path(), self.candidate.key.number);
                    return Err(Error::OutOfSight { path, revision, shard: shard as u32 }.into());
                }
                return Err(std::mem::take(damage).into());
            }
            *transfers = ShardTransfers::default();
            self.got.clear();
            let rank = group.rank();
            if !self.is_by_rank(group) {
                let mine = (0..self.locations.len()).filter(|shard| self.reports(rank, *shard));
                let reported = mine.map(|shard| self.here(levels, shard)).collect::<Result<Vec<_>>>();
                transfers.reported = Some(agree(group, reported)?);
                transfers.in_sight = self.in_sight(levels, rank);
                transfers.shared = self.shared(levels, rank, |shard| self.reports(rank, shard));
                return Ok(());
            }
            let all = (0..self.locations.len()).map(|shard| (shard, shard, None)).collect();
            if !self.take(group, post, levels, transfers, all, damage)? {
                let stored = || levels.at(self.home).stored(rank as u32, &self.candidate);
                transfers.reported = transfers.whole(rank as u32).or_else(stored).map(|own| vec![own]);
                transfers.shared = self.shared(levels, rank, |shard| shard == rank);
                return Ok(());
            }
        }
    }

    /// Brings each rank the items that it lacks. Returns whether some could not be read from the chosen locations.
    /// Collective.
    pub(super) fn bring_wanted(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &Levels,
        transfers: &mut ShardTransfers,
        damage: &mut Damage,
    ) -> Result<bool> {
        let wanted: Vec<WantedShards> = gather(group, &std::mem::take(&mut transfers.wanted))?;
        let of_rank = |(rank, shards): (usize, WantedShards)| {
            shards.into_iter().map(move |(shard, items)| (rank, shard as usize, Some(items)))
        };
        let all = wanted.into_iter().enumerate().flat_map(of_rank).collect();
        self.take(group, post, levels, transfers, all, damage)
    }

    /// Brings this rank the shards that it wants, each whole: from the best location, and if that is damaged from the next.
    /// The result is damage if a shard of some rank has no location left. Ranks may want different shards.
    /// Collective.
    pub(super) fn bring_to(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &Levels,
        mut wanted: BTreeSet<u32>,
    ) -> Attempted<Vec<StoredShard>> {
        let (mut brought, mut damage) = (Vec::new(), Damage::default());
        loop {
            let of_rank =
                |(rank, shards): (usize, BTreeSet<u32>)| shards.into_iter().map(move |it| (rank, it as usize));
            let wants: Vec<_> = gather(group, &wanted)?.into_iter().enumerate().flat_map(of_rank).collect();
            if wants.is_empty() {
                return Ok(brought);
            }
            if let Some((_, shard)) = wants.iter().find(|(_, shard)| self.location(*shard).is_none()) {
                if damage.is_empty() {
                    let (path, revision) = (levels.at(self.home).location.device.path(), self.candidate.key.number);
                    return Err(Error::OutOfSight { path, revision, shard: *shard as u32 }.into());
                }
                return Err(damage.into());
            }
            let mut reported: Vec<ReportedDamage> = Vec::new();
            let wants = self.senders(wants.into_iter().map(|(to, shard)| (to, shard, None)).collect())?;
            for (want, came) in exchange(group, post, levels, &self.candidate, &wants)? {
                let whole = came.and_then(|came| match came {
                    ReceivedShard::Here(level) => {
                        let (portion, kept) = here(levels, level, want.shard, &self.candidate)?;
                        pour(&portion, &portion.read_manifest(&kept.entry)?, &|_, _| ())?;
                        Ok((portion, kept))
                    }
                    // A shard from another rank was verified as it came.
                    ReceivedShard::Whole(shard) => Ok(shard),
                    ReceivedShard::Parts(_) => {
                        Err(Error::Internal { what: "parts of a shard that was wanted whole".to_owned() })
                    }
                });
                match whole {
                    Ok(whole) => {
                        wanted.remove(&(want.shard as u32));
                        brought.push(whole);
                    }
                    Err(error) => reported.push((want.shard, want.location, Unreadable::in_place(error))),
                }
            }
            let reported = gather_unequal(group, &reported)?.concat();
            self.pass_over(reported, &mut damage);
        }
    }

    /// Exchanges the `wants`: ranks, shards, and items. Returns whether any rank found damage; those locations are passed
    /// over. Collective.
    fn take(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &Levels,
        transfers: &mut ShardTransfers,
        wants: Vec<(usize, usize, Option<Vec<WantedItem>>)>,
        damage: &mut Damage,
    ) -> Result<bool> {
        let mut reported: Vec<ReportedDamage> = Vec::new();
        let wants = self.senders(wants)?;
        for (want, came) in exchange(group, post, levels, &self.candidate, &wants)? {
            let came = came.and_then(|came| match came {
                ReceivedShard::Here(level) if level != self.home || want.items.is_some() => {
                    here(levels, level, want.shard, &self.candidate).map(ReceivedShard::Whole)
                }
                came => Ok(came),
            });
            match came {
                Ok(ReceivedShard::Parts(parts)) => {
                    transfers.parts.push(*parts);
                    continue;
                }
                Ok(ReceivedShard::Whole(shard)) => transfers.received.push(shard),
                Ok(ReceivedShard::Here(_)) => {}
                Err(error) => {
                    reported.push((want.shard, want.location, Unreadable::in_place(error)));
                    continue;
                }
            }
            self.got.insert(want.shard, want.location);
        }
        let reported = gather_unequal(group, &reported)?.concat();
        Ok(self.pass_over(reported, damage))
    }

    /// The portion of a shard that this rank reports.
    fn here(&self, levels: &Levels, shard: usize) -> Result<StoredShard> {
        let gone = || Error::Internal { what: format!("shard {shard} is not where it was found") };
        here(levels, self.location(shard).ok_or_else(gone)?.level, shard, &self.candidate)
    }

    /// Passes over the locations in which ranks found damage. Returns whether there were any.
    fn pass_over(&mut self, reported: Vec<ReportedDamage>, damage: &mut Damage) -> bool {
        let any = !reported.is_empty();
        for (shard, location, found) in reported {
            if self.vain.get_mut(shard).is_some_and(|vain| vain.insert(location)) {
                damage.add(found.of(&format!("shard {shard}")));
            }
        }
        any
    }

    /// Verifies the data that was read in vain, and passes over damaged locations. Returns whether there were any.
    /// Collective.
    pub(super) fn blame(&mut self, group: &dyn Group, transfers: &ShardTransfers, damage: &mut Damage) -> Result<bool> {
        let whole = |(portion, kept): &StoredShard| {
            let shard = kept.entry.shard as usize;
            let best = || self.left(shard).next().map_or(0, |(number, _)| number);
            let location = self.got.get(&shard).copied().unwrap_or_else(best);
            let read = portion.read_manifest(&kept.entry);
            (shard, location, read.and_then(|manifest| pour(portion, &manifest, &|_, _| ())))
        };
        let whole = transfers.reported.iter().flatten().chain(&transfers.received).map(whole);
        let shared = transfers.shared.iter().map(|it| (it.kept.entry.shard as usize, it.location, it.verify()));
        let parts = transfers.parts.iter().map(|it| (it.entry.shard as usize, it.location, it.verify()));
        let damaged = |(shard, location, read): (usize, usize, Result<()>)| {
            read.err().map(|error| (shard, location, Unreadable::in_place(error)))
        };
        let reported: Vec<ReportedDamage> = whole.chain(shared).chain(parts).filter_map(damaged).collect();
        let reported = gather_unequal(group, &reported)?.concat();
        Ok(self.pass_over(reported, damage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commit::RevisionKey, space::format::Lineage};

    /// Shards with these locations: family, level, and rank.
    fn search(locations: &[&[(usize, usize, usize)]]) -> Search {
        let key = RevisionKey::new(Lineage { number: 1, id: [1; 16] }, 1);
        let candidate = Complete { key, shards: locations.len() as u32, layout: [1; 16] };
        let location = |&(family, level, rank): &(usize, usize, usize)| ShardLocation {
            family,
            level,
            rank,
            layout: [1; 16],
            leader: rank,
        };
        let locations: Vec<Vec<ShardLocation>> = locations.iter().map(|of| of.iter().map(location).collect()).collect();
        Search { home: 0, candidate, vain: vec![BTreeSet::new(); locations.len()], got: BTreeMap::new(), locations }
    }

    fn senders(search: &Search, wants: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let found = search.senders(wants.iter().map(|(to, shard)| (*to, *shard, None)).collect()).unwrap();
        found.iter().map(|want| (want.from, want.level)).collect()
    }

    /// Regression: the lowest rank with a shard sent it to all ranks, even to the holders of its copies.
    #[test]
    fn who_has_a_shard_needs_no_other_and_else_all_that_have_it_take_turns() {
        // Each rank has its own shard and that of the rank before it. Of shard 3 only the copy is left.
        let search = search(&[&[(0, 0, 0), (0, 1, 1)], &[(0, 0, 1), (0, 1, 2)], &[(0, 0, 2), (0, 1, 0)], &[(0, 1, 0)]]);
        assert_eq!(senders(&search, &[(1, 0), (2, 1), (0, 2), (0, 3)]), [(1, 1), (2, 1), (0, 1), (0, 1)]);
        assert_eq!(senders(&search, &[(2, 0), (3, 0), (4, 0), (5, 0)]), [(0, 0), (1, 1), (0, 0), (1, 1)]);
        // Only rank 0 has shard 3, so other ranks send the shards that they have too.
        assert_eq!(senders(&search, &[(1, 3), (2, 0), (0, 1), (3, 1)]), [(0, 1), (1, 1), (2, 1), (1, 0)]);
    }

    #[test]
    fn what_was_read_in_vain_is_read_elsewhere_and_farther_levels_come_last() {
        let mut search = search(&[&[(0, 0, 0), (0, 1, 1), (1, 2, 2)]]);
        let damaged_at = |location| vec![(0, location, Damage::found(vec!["damaged".to_owned()]))];
        assert_eq!(senders(&search, &[(2, 0), (3, 0)]), [(0, 0), (1, 1)]);
        assert!(search.pass_over(damaged_at(1), &mut Damage::default()));
        assert_eq!(senders(&search, &[(1, 0), (2, 0)]), [(0, 0), (0, 0)]);
        assert!(search.pass_over(damaged_at(0), &mut Damage::default()));
        assert_eq!(senders(&search, &[(1, 0), (2, 0)]), [(2, 2), (2, 2)]);
        assert_eq!(search.levels_in_vain(), [0, 1]);
        assert!(search.pass_over(damaged_at(2), &mut Damage::default()));
        assert!(search.location(0).is_none());
    }
}
