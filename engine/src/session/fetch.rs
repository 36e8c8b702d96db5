//! Reading a shard that its rank does not see, or that is damaged where the rank sees it: another rank that has it sends
//! it, and it is read from memory as from any level.
//!
//! What must hold: all ranks choose alike who sends what; nothing is read that was not verified on this rank.

use super::{
    chosen::Chosen,
    copies::{CopyWord, HeldShard, Letter, Post, announce, out_of_turn, room_for, word},
    flaws::{Attempted, Flaws, split_flaws},
    levels::Levels,
};
use crate::{
    commit::{Complete, Kept},
    error::{Error, Failure, Result},
    feed::{Source, finish_now},
    ground::{lock, pause},
    group::{Group, agree, gather},
    restore::pour,
    space::Portion,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A shard, and where it lies.
type Lying = (Portion, Arc<Kept>);

/// Where a rank has a shard: on one of the levels, or on a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    level: usize,
    rank: usize,
    layout: [u8; 16],
    /// The lowest of the ranks that see the same files.
    leader: usize,
}

/// What a rank tells of a shard that it has.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Lies {
    shard: u32,
    level: usize,
    layout: [u8; 16],
    leader: usize,
}

/// The search for the shards of one revision, each of which may lie in several spots.
pub(super) struct Search {
    /// The level to which shards are brought.
    home: usize,
    candidate: Complete,
    /// For each shard the spots, the best first.
    spots: Vec<Vec<Spot>>,
    /// How many spots of each shard were tried in vain.
    vain: Vec<usize>,
}

impl Search {
    /// Asks all ranks where they have shards of what was `chosen`. Collective.
    pub(super) fn begin(group: &dyn Group, levels: &Levels, chosen: &Chosen) -> Result<Search> {
        let candidate = &chosen.complete;
        let mut mine: Vec<Lies> = Vec::new();
        for &level in &chosen.on {
            let leader = levels.at(level).domain.leader();
            levels.at(level).each_ledger(|ledger| {
                let kept = ledger.found().into_iter().filter(|kept| kept.key() == candidate.key);
                let layout = ledger.portion().layout_id();
                mine.extend(kept.map(|kept| Lies { shard: kept.entry.shard, level, layout, leader }));
            });
        }
        let mut spots = vec![Vec::new(); candidate.shards as usize];
        for (rank, told) in gather(group, &mine)?.into_iter().enumerate() {
            for Lies { shard, level, layout, leader } in told {
                let known = chosen.on.contains(&level);
                if let Some(spots) = spots.get_mut(shard as usize).filter(|_| known) {
                    spots.push(Spot { level, rank, layout, leader });
                }
            }
        }
        let families = levels.families();
        let family = |level: usize| families.iter().position(|family| family.contains(&level));
        let is_same = candidate.shards as usize == group.size();
        for (shard, spots) in spots.iter_mut().enumerate() {
            // The nearest level first; and there, what its rank sees needs no message.
            spots.sort_by_key(|spot| (family(spot.level), is_same && spot.rank != shard, spot.level, spot.rank));
            spots.dedup_by_key(|spot| (spot.level, spot.rank));
        }
        Ok(Search { home: chosen.level, candidate: *candidate, vain: vec![0; spots.len()], spots })
    }

    /// The levels and copies on which a shard was tried in vain, ascending: the same on all ranks.
    pub(super) fn levels_in_vain(&self) -> Vec<usize> {
        let tried = self.spots.iter().zip(&self.vain).flat_map(|(spots, vain)| spots.iter().take(*vain));
        let levels: BTreeSet<usize> = tried.map(|spot| spot.level).collect();
        levels.into_iter().collect()
    }

    /// The portions of shards that others tell of, and that lie in files which this rank sees as well.
    fn in_sight(&self, levels: &Levels, rank: usize) -> Vec<(u32, Portion)> {
        let portion = |shard: usize| {
            let spot = self.spot(shard)?;
            let level = levels.at(spot.level);
            let is_here = spot.rank != rank && spot.leader == level.domain.leader();
            is_here.then(|| level.portion_of(spot.layout, shard as u32)).flatten().map(|at| (shard as u32, at))
        };
        (0..self.spots.len()).filter_map(portion).collect()
    }

    /// The spot of `shard` whose turn it is.
    fn spot(&self, shard: usize) -> Option<Spot> {
        self.spots[shard].get(self.vain[shard]).copied()
    }

    /// Whether each rank reads its own shard, and no other as far as is known.
    fn is_by_rank(&self, group: &dyn Group) -> bool {
        self.spots.len() == group.size()
    }

    /// Brings each rank its shard, from the best spot that has it whole as far as that is known; of a revision of another
    /// number of ranks, the shards that it tells of. The inner error says why there is none for some shard. Collective.
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
                    let (path, revision) = (levels.at(self.home).device.path(), self.candidate.key.number);
                    return Err(Error::OutOfSight { path, revision, shard: shard as u32 });
                }
                return Ok(Err(std::mem::take(flaws)));
            }
            levels.at_mut(self.home).forget_fetched();
            let rank = group.rank();
            if !self.is_by_rank(group) {
                let mine =
                    (0..self.spots.len()).filter(|shard| self.spot(*shard).is_some_and(|spot| spot.rank == rank));
                let told_of = mine.map(|shard| self.here(levels, shard)).collect::<Result<Vec<_>>>();
                let told_of = agree(group, told_of)?;
                let in_sight = self.in_sight(levels, rank);
                let home = levels.at_mut(self.home);
                (home.told_of, home.in_sight) = (Some(told_of), in_sight);
                return Ok(Ok(()));
            }
            let all: Vec<(usize, usize)> = (0..self.spots.len()).map(|shard| (shard, shard)).collect();
            if !self.take(group, post, levels, &all, flaws)? {
                let level = levels.at_mut(self.home);
                level.told_of = level.shard(rank as u32, &self.candidate).map(|own| vec![own]);
                return Ok(Ok(()));
            }
        }
    }

    /// Brings each rank the shards that it has found lacking. Returns whether some could not be had from where they were
    /// looked for. Collective.
    pub(super) fn bring_wanted(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &mut Levels,
        flaws: &mut Flaws,
    ) -> Result<bool> {
        let mine: Vec<u32> = std::mem::take(&mut *lock(&levels.at(self.home).wanted)).into_iter().collect();
        let told = gather(group, &mine)?;
        let of_rank = |(rank, shards): (usize, Vec<u32>)| shards.into_iter().map(move |shard| (rank, shard as usize));
        let all: Vec<(usize, usize)> = told.into_iter().enumerate().flat_map(of_rank).collect();
        self.take(group, post, levels, &all, flaws)
    }

    /// Brings this rank the shards that it wants, each whole: from its best spot, and where that is damaged from the next.
    /// The inner error says why there is none for some shard of some rank. Collective, with what each rank wants.
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
                    let (path, revision) = (levels.at(self.home).device.path(), self.candidate.key.number);
                    return Err(Error::OutOfSight { path, revision, shard: *shard as u32 });
                }
                return Ok(Err(flaws));
            }
            let mut told: Vec<(usize, Flaws)> = Vec::new();
            for (shard, came) in self.exchange(group, post, levels, &wants)? {
                let is_here = self.spot(shard).is_some_and(|spot| spot.rank == group.rank());
                let whole = came.and_then(|came| {
                    let (portion, kept) = came.map_or_else(|| self.here(levels, shard), Ok)?;
                    if is_here {
                        // What another rank has sent was verified as it came.
                        pour(&portion, &portion.read_manifest(&kept.entry)?, &|_, _| ())?;
                    }
                    Ok((portion, kept))
                });
                match split_flaws(whole) {
                    Ok(Ok(whole)) => {
                        wanted.remove(&(shard as u32));
                        brought.push(whole);
                    }
                    Ok(Err(flaws)) => told.push((shard, flaws)),
                    Err(error) => told.push((shard, Flaws::unread(error.to_string()))),
                }
            }
            let told = gather(group, &told)?.concat();
            self.pass_over(told, &mut flaws);
        }
    }

    /// Has `wants`, ranks and the shards that they are to read, sent and received. Returns whether any rank has found
    /// flaws; those spots are passed over. Collective.
    fn take(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &mut Levels,
        wants: &[(usize, usize)],
        flaws: &mut Flaws,
    ) -> Result<bool> {
        let mut told: Vec<(usize, Flaws)> = Vec::new();
        for (shard, came) in self.exchange(group, post, levels, wants)? {
            match split_flaws(came) {
                Ok(Ok(came)) => levels.at_mut(self.home).fetched.extend(came),
                Ok(Err(flaws)) => told.push((shard, flaws)),
                Err(error) => told.push((shard, Flaws::unread(error.to_string()))),
            }
        }
        let told = gather(group, &told)?.concat();
        Ok(self.pass_over(told, flaws))
    }

    /// Where a shard lies that this rank has.
    fn here(&self, levels: &Levels, shard: usize) -> Result<(Portion, Arc<Kept>)> {
        let gone = || Error::Internal { what: format!("shard {shard} is not where it was found") };
        let spot = self.spot(shard).ok_or_else(gone)?;
        levels.at(spot.level).stored(shard as u32, &self.candidate).ok_or_else(gone)
    }

    /// Passes the spots over of which ranks have told flaws; returns whether there were any.
    fn pass_over(&mut self, told: Vec<(usize, Flaws)>, flaws: &mut Flaws) -> bool {
        let any = !told.is_empty();
        let mut passed = BTreeSet::new();
        for (shard, told) in told {
            if let Some(vain) = self.vain.get_mut(shard).filter(|_| passed.insert(shard)) {
                *vain += 1;
                flaws.add(told.of(&format!("shard {shard}")));
            }
        }
        any
    }

    /// Verifies what was read in vain, and passes over what is damaged. Returns whether anything was. Collective.
    pub(super) fn blame(&mut self, group: &dyn Group, levels: &Levels, flaws: &mut Flaws) -> Result<bool> {
        let level = levels.at(self.home);
        let read = level.told_of.iter().flatten().chain(&level.fetched);
        let verify = |(portion, kept): &(Portion, Arc<Kept>)| {
            let read = portion.read_manifest(&kept.entry);
            let read = split_flaws(read.and_then(|manifest| pour(portion, &manifest, &|_, _| ())));
            let flaws = read.map_or_else(|error| Some(Flaws::unread(error.to_string())), |read| read.err());
            flaws.map(|flaws| (kept.entry.shard as usize, flaws))
        };
        let told = gather(group, &read.filter_map(verify).collect::<Vec<_>>())?.concat();
        Ok(self.pass_over(told, flaws))
    }

    /// Sends what other ranks read from here, and receives what this rank reads from others. What is returned is of this
    /// rank's shards alone: nothing for one that lies on the level itself. Collective.
    #[allow(clippy::type_complexity)]
    fn exchange(
        &self,
        group: &dyn Group,
        post: &mut Post,
        levels: &Levels,
        wants: &[(usize, usize)],
    ) -> Result<Vec<(usize, Result<Option<(Portion, Arc<Kept>)>>)>> {
        let (rank, key) = (group.rank(), self.candidate.key);
        let mut came = Vec::new();
        let mut queues: BTreeMap<usize, Vec<(usize, HeldShard)>> = BTreeMap::new();
        for &(to, shard) in wants {
            let Some(spot) = self.spot(shard) else { return Err(out_of_turn(to)) };
            match (spot.rank == rank, to == rank) {
                (true, true) if spot.level == self.home => came.push((shard, Ok(None))),
                (true, true) => came.push((shard, self.here(levels, shard).map(Some))),
                (true, false) => {
                    let source = self.here(levels, shard).map(|(portion, kept)| Source::Published(portion, kept));
                    match source.and_then(|source| announce(&source, spot.level, key, None)) {
                        Ok((announced, stretches, _)) => {
                            post.tell(group, to, &CopyWord::Shard(Box::new(announced)))?;
                            stretches.into_iter().try_for_each(|stretch| post.send(group, to, Box::new(stretch)))?;
                        }
                        Err(error) => post.tell(group, to, &CopyWord::GivenUp(spot.level, Failure::from(&error)))?,
                    }
                }
                (false, true) => {
                    post.expect(spot.rank);
                    let held = HeldShard::to_read(spot.rank, shard as u32, levels.at(spot.level).device.clone());
                    queues.entry(spot.rank).or_default().push((shard, held));
                }
                (false, false) => {}
            }
        }
        let mut tries = 0;
        loop {
            for (&from, queue) in &mut queues {
                while let Some(letter) = post.next(group, from)? {
                    // One shard after the other.
                    let held = queue.iter_mut().map(|(_, held)| held).find(|held| !held.is_there());
                    let Some(held) = held else { return Err(out_of_turn(from)) };
                    match letter {
                        Letter::Length(length) => post.receive(group, from, room_for(length, from)?)?,
                        Letter::Word(bytes) => match word(&bytes)? {
                            CopyWord::Shard(announced) => {
                                for piece in held.take_on(*announced, key)? {
                                    post.receive(group, from, Letter::Piece(piece))?;
                                }
                            }
                            CopyWord::GivenUp(_, failed) => held.give_up(failed.on(from)),
                            CopyWord::Size(_) => return Err(out_of_turn(from)),
                        },
                        Letter::Piece(piece) => held.take(piece),
                    }
                    held.finish(|copy, arrived| finish_now(&copy, arrived));
                }
            }
            if post.is_through(group)? {
                break;
            }
            tries += 1;
            pause(tries);
        }
        let brought = queues.into_values().flatten().map(|(shard, held)| (shard, held.published().map(Some)));
        came.extend(brought);
        Ok(came)
    }
}
