//! Reads shards that a rank does not see, or sees damaged: another rank sends the shard, or the needed parts. This rank
//! then reads them from memory as from any level.
//!
//! Invariants: all ranks choose the same senders; a rank reads no data that it has not verified itself.

use super::{
    brought::{SharedShard, WantedShards},
    chosen::Chosen,
    copies::Post,
    exchange::{Came, Lying, Want, exchange, here},
    flaws::{Attempted, Flaws, split_flaws},
    levels::Levels,
};
use crate::{
    commit::Complete,
    error::{Error, Result},
    ground::lock,
    group::{Group, agree, gather},
    restore::{WantedItem, pour},
    space::Portion,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A place of a shard: a rank, on a level or a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
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
struct Lies {
    shard: u32,
    level: usize,
    layout: [u8; 16],
    leader: usize,
}

/// The search for the shards of one revision. Each shard may have several spots.
pub(super) struct Search {
    /// The level that receives the shards.
    home: usize,
    candidate: Complete,
    /// The spots of each shard, the best first.
    spots: Vec<Vec<Spot>>,
    /// The spots of each shard that were tried in vain.
    vain: Vec<BTreeSet<usize>>,
    /// For each shard that this rank got whole, the index of its spot.
    got: BTreeMap<usize, usize>,
}

/// A shard, one of its spots, and the flaws there.
type ToldFlaws = (usize, usize, Flaws);

impl Search {
    /// Gathers the places of the shards of the `chosen` revision from all ranks. Collective.
    pub(super) fn begin(group: &dyn Group, levels: &Levels, chosen: &Chosen) -> Result<Search> {
        let candidate = &chosen.complete;
        let mut mine: Vec<Lies> = Vec::new();
        for &level in &chosen.on {
            let leader = levels.at(level).location.domain.leader();
            levels.at(level).each_ledger(|ledger| {
                let kept = ledger.found().into_iter().filter(|kept| kept.key() == candidate.key);
                let layout = ledger.portion().layout_id();
                mine.extend(kept.map(|kept| Lies { shard: kept.entry.shard, level, layout, leader }));
            });
        }
        let families = levels.families();
        let family_of = |level: usize| families.iter().position(|family| family.contains(&level));
        let mut spots = vec![Vec::new(); candidate.shards as usize];
        for (rank, told) in gather(group, &mine)?.into_iter().enumerate() {
            for Lies { shard, level, layout, leader } in told {
                let family = family_of(level).filter(|_| chosen.on.contains(&level));
                if let (Some(spots), Some(family)) = (spots.get_mut(shard as usize), family) {
                    spots.push(Spot { family, level, rank, layout, leader });
                }
            }
        }
        let is_same = candidate.shards as usize == group.size();
        for (shard, spots) in spots.iter_mut().enumerate() {
            // The nearest level comes first. Within a level, shards that their own rank sees come first: they need no
            // message.
            spots.sort_by_key(|spot| (spot.family, is_same && spot.rank != shard, spot.level, spot.rank));
            spots.dedup_by_key(|spot| (spot.level, spot.rank));
        }
        Ok(Search {
            home: chosen.level,
            candidate: *candidate,
            vain: vec![BTreeSet::new(); spots.len()],
            got: BTreeMap::new(),
            spots,
        })
    }

    /// The levels and copies where a shard was tried in vain, ascending; the same on all ranks.
    pub(super) fn levels_in_vain(&self) -> Vec<usize> {
        let tried = self.spots.iter().zip(&self.vain);
        let tried = tried.flat_map(|(spots, vain)| vain.iter().filter_map(|spot| spots.get(*spot)));
        let levels: BTreeSet<usize> = tried.map(|spot| spot.level).collect();
        levels.into_iter().collect()
    }

    /// The portions of shards that other ranks report, in files that this rank sees too.
    fn in_sight(&self, levels: &Levels, rank: usize) -> Vec<(u32, Portion)> {
        let portion = |shard: usize| {
            let spot = self.spot(shard)?;
            let level = levels.at(spot.level);
            let is_here = spot.rank != rank && spot.leader == level.location.domain.leader();
            is_here.then(|| level.portion_of(spot.layout, shard as u32)).flatten().map(|at| (shard as u32, at))
        };
        (0..self.spots.len()).filter_map(portion).collect()
    }

    /// The spots of `shard` that were not tried in vain, with their indices, the best first.
    fn left(&self, shard: usize) -> impl Iterator<Item = (usize, &Spot)> {
        self.spots[shard].iter().enumerate().filter(move |(number, _)| !self.vain[shard].contains(number))
    }

    /// The best spot of `shard`; its rank reports the shard to the others.
    fn spot(&self, shard: usize) -> Option<Spot> {
        self.left(shard).next().map(|(_, spot)| *spot)
    }

    /// The sender for each of `wants`: a rank, the shard that it wants, and the items (`None`: the whole shard). Only
    /// spots on the nearest level with the shard count. A rank with the shard needs no sender. Otherwise the rank that
    /// was asked for the least so far sends it, so the ranks share the work. An error if a shard has no spot left.
    fn senders(&self, wants: Vec<(usize, usize, Option<Vec<WantedItem>>)>) -> Result<Vec<Want>> {
        let mut asked = BTreeMap::<usize, u64>::new();
        let mut found = Vec::with_capacity(wants.len());
        for (to, shard, items) in wants {
            let nearest = self.spot(shard).map(|spot| spot.family);
            let near = || self.left(shard).filter(|(_, spot)| Some(spot.family) == nearest);
            let own = near().find(|(_, spot)| spot.rank == to);
            let least = || near().min_by_key(|(number, spot)| (asked.get(&spot.rank).copied().unwrap_or(0), *number));
            let Some((spot, at)) = own.or_else(least) else { return Err(super::copies::out_of_turn(to)) };
            let (level, from) = (at.level, at.rank);
            if from != to {
                let bytes = items.as_ref().map_or(1, |items| items.iter().map(WantedItem::bytes).sum());
                *asked.entry(from).or_default() += bytes;
            }
            found.push(Want { to, shard, items, spot, level, from });
        }
        Ok(found)
    }

    /// Whether `rank` reports the shard to the others, in a revision of another number of ranks.
    fn tells_of(&self, rank: usize, shard: usize) -> bool {
        self.spot(shard).is_some_and(|spot| spot.rank == rank)
    }

    /// The shards that this rank has but does not report, unless they are known to be damaged.
    fn beside(&self, levels: &Levels, rank: usize, tells_of: impl Fn(usize) -> bool) -> Vec<SharedShard> {
        let own = |shard: usize| {
            let nearest = self.spot(shard)?.family;
            let mut near = self.left(shard).filter(|(_, spot)| spot.family == nearest && spot.rank == rank);
            let (portion, kept, spot) = near.find_map(|(number, spot)| {
                let (portion, kept) = here(levels, spot.level, shard, &self.candidate).ok()?;
                Some((portion, kept, number))
            })?;
            Some(SharedShard { spot, portion, kept })
        };
        (0..self.spots.len()).filter(|shard| !tells_of(*shard)).filter_map(own).collect()
    }

    /// Whether each rank reads its own shard, and no other as far as is known.
    fn is_by_rank(&self, group: &dyn Group) -> bool {
        self.spots.len() == group.size()
    }

    /// Brings each rank its shard from the best spot that is not known to be damaged. For a revision of another number
    /// of ranks: brings the shards that this rank reports. The inner error holds the reasons if a shard has no spot
    /// left. Collective.
    pub(super) fn bring(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &mut Levels,
        flaws: &mut Flaws,
    ) -> Result<Attempted<()>> {
        loop {
            if let Some(shard) = (0..self.spots.len()).find(|shard| self.spot(*shard).is_none()) {
                if flaws.is_empty() {
                    let (path, revision) = (levels.at(self.home).location.device.path(), self.candidate.key.number);
                    return Err(Error::OutOfSight { path, revision, shard: shard as u32 });
                }
                return Ok(Err(std::mem::take(flaws)));
            }
            levels.at_mut(self.home).forget_fetched();
            self.got.clear();
            let rank = group.rank();
            if !self.is_by_rank(group) {
                let mine = (0..self.spots.len()).filter(|shard| self.tells_of(rank, *shard));
                let told_of = mine.map(|shard| self.here(levels, shard)).collect::<Result<Vec<_>>>();
                let told_of = agree(group, told_of)?;
                let (in_sight, beside) =
                    (self.in_sight(levels, rank), self.beside(levels, rank, |shard| self.tells_of(rank, shard)));
                let home = levels.at_mut(self.home);
                (home.search.told_of, home.search.in_sight, home.search.beside) = (Some(told_of), in_sight, beside);
                return Ok(Ok(()));
            }
            let all = (0..self.spots.len()).map(|shard| (shard, shard, None)).collect();
            if !self.take(group, post, levels, all, flaws)? {
                let beside = self.beside(levels, rank, |shard| shard == rank);
                let level = levels.at_mut(self.home);
                level.search.told_of = level.shard(rank as u32, &self.candidate).map(|own| vec![own]);
                level.search.beside = beside;
                return Ok(Ok(()));
            }
        }
    }

    /// Brings each rank the items that it lacks. Returns whether some could not be read from the chosen spots.
    /// Collective.
    pub(super) fn bring_wanted(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &mut Levels,
        flaws: &mut Flaws,
    ) -> Result<bool> {
        let mine: WantedShards = std::mem::take(&mut *lock(&levels.at(self.home).search.wanted));
        let told: Vec<WantedShards> = gather(group, &mine)?;
        let of_rank = |(rank, shards): (usize, WantedShards)| {
            shards.into_iter().map(move |(shard, items)| (rank, shard as usize, Some(items)))
        };
        let all = told.into_iter().enumerate().flat_map(of_rank).collect();
        self.take(group, post, levels, all, flaws)
    }

    /// Brings this rank the shards that it wants, each whole: from the best spot, and if that is damaged from the next.
    /// The inner error holds the reasons if a shard of some rank has no spot left. Ranks may want different shards.
    /// Collective.
    pub(super) fn bring_to(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &Levels,
        mut wanted: BTreeSet<u32>,
    ) -> Result<Attempted<Vec<Lying>>> {
        let (mut brought, mut flaws) = (Vec::new(), Flaws::default());
        loop {
            let of_rank =
                |(rank, shards): (usize, BTreeSet<u32>)| shards.into_iter().map(move |it| (rank, it as usize));
            let wants: Vec<_> = gather(group, &wanted)?.into_iter().enumerate().flat_map(of_rank).collect();
            if wants.is_empty() {
                return Ok(Ok(brought));
            }
            if let Some((_, shard)) = wants.iter().find(|(_, shard)| self.spot(*shard).is_none()) {
                if flaws.is_empty() {
                    let (path, revision) = (levels.at(self.home).location.device.path(), self.candidate.key.number);
                    return Err(Error::OutOfSight { path, revision, shard: *shard as u32 });
                }
                return Ok(Err(flaws));
            }
            let mut told: Vec<ToldFlaws> = Vec::new();
            let wants = self.senders(wants.into_iter().map(|(to, shard)| (to, shard, None)).collect())?;
            for (want, came) in exchange(group, post, levels, &self.candidate, &wants)? {
                let whole = came.and_then(|came| match came {
                    Came::Here(level) => {
                        let (portion, kept) = here(levels, level, want.shard, &self.candidate)?;
                        pour(&portion, &portion.read_manifest(&kept.entry)?, &|_, _| ())?;
                        Ok((portion, kept))
                    }
                    // A shard from another rank was verified as it came.
                    Came::Whole(lying) => Ok(lying),
                    Came::Parts(_) => {
                        Err(Error::Internal { what: "parts of a shard that was wanted whole".to_owned() })
                    }
                });
                let flaws = match split_flaws(whole) {
                    Ok(Ok(whole)) => {
                        wanted.remove(&(want.shard as u32));
                        brought.push(whole);
                        continue;
                    }
                    Ok(Err(flaws)) => flaws,
                    Err(error) => Flaws::unread(error.to_string()),
                };
                told.push((want.shard, want.spot, flaws));
            }
            let told = gather(group, &told)?.concat();
            self.pass_over(told, &mut flaws);
        }
    }

    /// Exchanges the `wants`: ranks, shards, and items. Returns whether any rank found flaws; those spots are passed
    /// over. Collective.
    fn take(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &mut Levels,
        wants: Vec<(usize, usize, Option<Vec<WantedItem>>)>,
        flaws: &mut Flaws,
    ) -> Result<bool> {
        let mut told: Vec<ToldFlaws> = Vec::new();
        let wants = self.senders(wants)?;
        for (want, came) in exchange(group, post, levels, &self.candidate, &wants)? {
            let came = came.and_then(|came| match came {
                Came::Here(level) if level != self.home || want.items.is_some() => {
                    here(levels, level, want.shard, &self.candidate).map(Came::Whole)
                }
                came => Ok(came),
            });
            let home = levels.at_mut(self.home);
            let flaws = match split_flaws(came) {
                Ok(Ok(came)) => {
                    match came {
                        Came::Parts(parts) => {
                            home.search.parts.push(*parts);
                            continue;
                        }
                        Came::Whole(lying) => home.search.fetched.push(lying),
                        Came::Here(_) => {}
                    }
                    self.got.insert(want.shard, want.spot);
                    continue;
                }
                Ok(Err(flaws)) => flaws,
                Err(error) => Flaws::unread(error.to_string()),
            };
            told.push((want.shard, want.spot, flaws));
        }
        let told = gather(group, &told)?.concat();
        Ok(self.pass_over(told, flaws))
    }

    /// The portion of a shard that this rank reports.
    fn here(&self, levels: &Levels, shard: usize) -> Result<Lying> {
        let gone = || Error::Internal { what: format!("shard {shard} is not where it was found") };
        here(levels, self.spot(shard).ok_or_else(gone)?.level, shard, &self.candidate)
    }

    /// Passes over the spots in which ranks found flaws. Returns whether there were any.
    fn pass_over(&mut self, told: Vec<ToldFlaws>, flaws: &mut Flaws) -> bool {
        let any = !told.is_empty();
        for (shard, spot, told) in told {
            if self.vain.get_mut(shard).is_some_and(|vain| vain.insert(spot)) {
                flaws.add(told.of(&format!("shard {shard}")));
            }
        }
        any
    }

    /// Verifies the data that was read in vain, and passes over damaged spots. Returns whether there were any.
    /// Collective.
    pub(super) fn blame(&mut self, group: &dyn Group, levels: &Levels, flaws: &mut Flaws) -> Result<bool> {
        let level = levels.at(self.home);
        let whole = |(portion, kept): &Lying| {
            let shard = kept.entry.shard as usize;
            let best = || self.left(shard).next().map_or(0, |(number, _)| number);
            let spot = self.got.get(&shard).copied().unwrap_or_else(best);
            let read = portion.read_manifest(&kept.entry);
            (shard, spot, read.and_then(|manifest| pour(portion, &manifest, &|_, _| ())))
        };
        let whole = level.search.told_of.iter().flatten().chain(&level.search.fetched).map(whole);
        let beside = level.search.beside.iter().map(|it| (it.kept.entry.shard as usize, it.spot, it.verify()));
        let parts = level.search.parts.iter().map(|it| (it.entry.shard as usize, it.spot, it.verify()));
        let flawed = |(shard, spot, read): (usize, usize, Result<()>)| {
            let flaws =
                split_flaws(read).map_or_else(|error| Some(Flaws::unread(error.to_string())), |read| read.err());
            flaws.map(|flaws| (shard, spot, flaws))
        };
        let told: Vec<ToldFlaws> = whole.chain(beside).chain(parts).filter_map(flawed).collect();
        let told = gather(group, &told)?.concat();
        Ok(self.pass_over(told, flaws))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commit::RevisionKey, space::format::Lineage};

    /// Shards with these spots: family, level, and rank.
    fn search(spots: &[&[(usize, usize, usize)]]) -> Search {
        let key = RevisionKey::new(Lineage { number: 1, id: [1; 16] }, 1);
        let candidate = Complete { key, shards: spots.len() as u32, layout: [1; 16] };
        let spot = |&(family, level, rank): &(usize, usize, usize)| Spot {
            family,
            level,
            rank,
            layout: [1; 16],
            leader: rank,
        };
        let spots: Vec<Vec<Spot>> = spots.iter().map(|of| of.iter().map(spot).collect()).collect();
        Search { home: 0, candidate, vain: vec![BTreeSet::new(); spots.len()], got: BTreeMap::new(), spots }
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
        let told = |spot| vec![(0, spot, Flaws::found(vec!["damaged".to_owned()]))];
        assert_eq!(senders(&search, &[(2, 0), (3, 0)]), [(0, 0), (1, 1)]);
        assert!(search.pass_over(told(1), &mut Flaws::default()));
        assert_eq!(senders(&search, &[(1, 0), (2, 0)]), [(0, 0), (0, 0)]);
        assert!(search.pass_over(told(0), &mut Flaws::default()));
        assert_eq!(senders(&search, &[(1, 0), (2, 0)]), [(2, 2), (2, 2)]);
        assert_eq!(search.levels_in_vain(), [0, 1]);
        assert!(search.pass_over(told(2), &mut Flaws::default()));
        assert!(search.spot(0).is_none());
    }
}
