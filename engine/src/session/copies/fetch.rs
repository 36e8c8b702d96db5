//! Reading a shard that its rank does not see, or that is damaged where the rank sees it: another rank that has it sends
//! it, and it is read from memory as from any level.
//!
//! What must hold: all ranks choose alike who sends what; nothing is read that was not verified on this rank.

use super::{
    held::Held,
    lane::announce,
    out_of_turn,
    post::{self, Letter, Post},
    words::Word,
};
use crate::{
    commit::{Complete, Kept},
    error::{Error, Failure, Result},
    feed::{Source, finish_now},
    ground::pause,
    group::{Group, gather},
    restore::pour,
    session::{
        flaws::{Attempted, Flaws, split_flaws},
        level::Levels,
    },
    space::Portion,
};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc};

/// Where a rank has a shard: in one of the levels that are one level and its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Spot {
    level: usize,
    rank: usize,
}

/// The search for the shards of one revision, each of which may lie in several spots.
pub(in crate::session) struct Search {
    family: Range<usize>,
    candidate: Complete,
    /// For each shard the spots, the best first.
    spots: Vec<Vec<Spot>>,
    /// How many spots of each shard were tried in vain.
    vain: Vec<usize>,
}

impl Search {
    /// Asks all ranks where they have shards of `candidate`, on the levels of `family`. Collective.
    pub(in crate::session) fn begin(
        group: &dyn Group,
        levels: &Levels,
        family: Range<usize>,
        candidate: &Complete,
    ) -> Result<Search> {
        let mut mine: Vec<(u32, usize)> = Vec::new();
        for level in family.clone() {
            levels.at(level).each_ledger(|ledger| {
                let kept = ledger.found().into_iter().filter(|kept| kept.key() == candidate.key);
                mine.extend(kept.map(|kept| (kept.entry.shard, level)));
            });
        }
        let mut spots = vec![Vec::new(); candidate.shards as usize];
        for (rank, told) in gather(group, &mine)?.into_iter().enumerate() {
            for (shard, level) in told {
                if let Some(spots) = spots.get_mut(shard as usize) {
                    spots.push(Spot { level, rank });
                }
            }
        }
        for (shard, spots) in spots.iter_mut().enumerate() {
            // What its rank sees needs no message.
            spots.sort_by_key(|spot| (spot.rank != shard, *spot));
            spots.dedup();
        }
        Ok(Search { family, candidate: *candidate, vain: vec![0; spots.len()], spots })
    }

    /// The spot of `shard` whose turn it is.
    fn spot(&self, shard: usize) -> Option<Spot> {
        self.spots[shard].get(self.vain[shard]).copied()
    }

    /// Brings each rank its shard, from the best spot that has it whole as far as that is known. The inner error says
    /// why there is none for some shard. Collective.
    pub(in crate::session) fn bring(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        levels: &mut Levels,
        flaws: &mut Flaws,
    ) -> Result<Attempted<()>> {
        loop {
            if let Some(shard) = (0..self.spots.len()).find(|shard| self.spot(*shard).is_none()) {
                if flaws.is_empty() {
                    let (path, revision) = (levels.at(self.family.start).device.path(), self.candidate.key.number);
                    return Err(Error::OutOfSight { path, revision, shard: shard as u32 });
                }
                return Ok(Err(std::mem::take(flaws)));
            }
            let mine = self.exchange(group, post, levels)?;
            let mine = split_flaws(mine);
            let told = gather(
                group,
                &match &mine {
                    Ok(Ok(_)) => None,
                    Ok(Err(flaws)) => Some(flaws.clone()),
                    Err(error) => Some(Flaws::unread(error.to_string())),
                },
            )?;
            if let Ok(Ok(fetched)) = mine {
                levels.at_mut(self.family.start).fetched = fetched;
            }
            if !self.pass_over(told, flaws) {
                return Ok(Ok(()));
            }
        }
    }

    /// Passes the spots over of which ranks have told flaws; returns whether there were any.
    fn pass_over(&mut self, told: Vec<Option<Flaws>>, flaws: &mut Flaws) -> bool {
        let mut any = false;
        for (shard, told) in told.into_iter().enumerate() {
            if let Some(told) = told {
                self.vain[shard] += 1;
                flaws.add(told.of(&format!("shard {shard}")));
                any = true;
            }
        }
        any
    }

    /// Verifies what each rank has read in vain, and passes over what is damaged. Returns whether anything was.
    /// Collective.
    pub(in crate::session) fn blame(&mut self, group: &dyn Group, levels: &Levels, flaws: &mut Flaws) -> Result<bool> {
        let level = levels.at(self.family.start);
        let mine = match level.shard(group.rank() as u32, &self.candidate) {
            Some((portion, kept)) => {
                let read = portion.read_manifest(&kept.entry);
                split_flaws(read.and_then(|manifest| pour(&portion, &manifest, &|_, _| ())))
            }
            None => Ok(Ok(())),
        };
        let mine = mine.map_or_else(|error| Some(Flaws::unread(error.to_string())), |read| read.err());
        let told = gather(group, &mine)?;
        Ok(self.pass_over(told, flaws))
    }

    /// Sends what other ranks read from here, and receives what this rank reads from others. The inner result is of
    /// this rank's shard alone: `None` where it lies on the level itself. Collective.
    #[allow(clippy::type_complexity)]
    fn exchange(
        &self,
        group: &dyn Group,
        post: &mut Post,
        levels: &Levels,
    ) -> Result<Result<Option<(Portion, Arc<Kept>)>>> {
        let (rank, key) = (group.rank(), self.candidate.key);
        let here = |level: usize, shard: usize| -> Result<(Portion, Arc<Kept>)> {
            let gone = || Error::Internal { what: format!("shard {shard} is not where it was found") };
            levels.at(level).stored(shard as u32, &self.candidate).ok_or_else(gone)
        };
        for (to, spot) in (0..self.spots.len()).filter_map(|shard| self.spot(shard).map(|spot| (shard, spot))) {
            if spot.rank != rank || to == rank {
                continue;
            }
            let source = here(spot.level, to).map(|(portion, kept)| Source::Published(portion, kept));
            match source.and_then(|source| announce(&source, spot.level, key)) {
                Ok((announced, stretches)) => {
                    post.tell(group, to, &Word::Shard(Box::new(announced)))?;
                    stretches.into_iter().try_for_each(|stretch| post.send(group, to, Box::new(stretch)))?;
                }
                Err(error) => post.tell(group, to, &Word::GivenUp(spot.level, Failure::from(&error)))?,
            }
        }
        let Some(spot) = self.spot(rank) else { return Err(out_of_turn(rank)) };
        let mut held = None;
        if spot.rank != rank {
            post.expect(spot.rank);
            held = Some(Held::to_read(spot.rank, rank as u32, levels.at(spot.level).device.clone()));
        }
        let mut tries = 0;
        loop {
            if let Some(held) = &mut held {
                while let Some(letter) = post.next(group, spot.rank)? {
                    match letter {
                        Letter::Length(length) => {
                            post.receive(group, spot.rank, post::room_for(length, spot.rank)?)?;
                        }
                        Letter::Word(bytes) => match post::word(&bytes)? {
                            Word::Shard(announced) => {
                                for piece in held.take_on(*announced, key)? {
                                    post.receive(group, spot.rank, Letter::Piece(piece))?;
                                }
                            }
                            Word::GivenUp(_, failed) => held.give_up(failed.on(spot.rank)),
                            Word::Size(_) => return Err(out_of_turn(spot.rank)),
                        },
                        Letter::Piece(piece) => held.take(piece),
                    }
                }
                held.finish(|copy, arrived| finish_now(&copy, arrived));
            }
            if post.is_through(group)? {
                break;
            }
            tries += 1;
            pause(tries);
        }
        Ok(match held {
            Some(held) => held.published().map(Some),
            None if spot.level == self.family.start => Ok(None),
            None => here(spot.level, rank).map(Some),
        })
    }
}
