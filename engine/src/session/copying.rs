//! Copies on their way while the program goes on. This module starts them, moves them on in the program's calls, and
//! finishes them with all ranks.
//!
//! Invariant: a rank waits for messages only while all ranks are in one call.

use super::{
    agreement::Agreement,
    attempt::Attempt,
    copies::{ArrivingReplica, CopyLane, CopyWord, Copying, Letter, Post, out_of_turn, room_for, word},
    entry::Call,
    level::{Level, LevelKind},
    ranks::Entered,
    resources::Resources,
    state::SessionState,
};
use crate::{
    capture::Size,
    commit::RevisionKey,
    config::Exchange,
    error::{Error, Result},
    feed::{Feeder, Source},
    ground::pause,
    group::Group,
    place::Site,
};

/// The progress of the copies on this rank.
pub(super) struct Progress {
    /// All messages are through.
    messages: bool,
    /// The levels with copies that have neither arrived nor failed.
    busy: Vec<LevelKind>,
}

impl Level {
    /// Starts to copy `source`, if there is one, to this level. `index`: the number of the level. `sites`: the places
    /// on this rank for the shards of its owners.
    pub(super) fn begin_copying(
        &self,
        post: &mut Post,
        (index, rank): (usize, usize),
        key: RevisionKey,
        source: Option<Result<Source>>,
        sites: Vec<(usize, Site, Size)>,
    ) -> Copying {
        sites.iter().for_each(|(owner, ..)| post.expect(*owner));
        let held = sites.into_iter().map(|(owner, site, size)| ArrivingReplica::new(owner, site, size)).collect();
        let is_newest = |key: RevisionKey| {
            let newest = self.complete.first();
            newest.is_some_and(|newest| newest.key == key && Some(newest.layout) == self.layout_id())
        };
        let old = self.feeding.sent.clone().filter(|(key, _)| is_newest(*key));
        let remembers = self.location.config.capture.is_incremental();
        let (holder, is_mapped) = (self.location.writers.of(rank), self.location.device.directory().is_memory());
        let lane = source.map(|source| CopyLane::new(index, holder, source, old, remembers, is_mapped));
        Copying::new(key, lane, held)
    }

    /// Whether a copy of the shard of `owner` cannot come yet because its place here is still getting its memory.
    fn awaits_memory_of(&self, owner: usize) -> bool {
        match &self.saving {
            Some(Attempt::Copying(Copying { held, .. })) => {
                held.iter().any(|held| held.from == owner && held.awaits_memory())
            }
            _ => false,
        }
    }
}

impl SessionState {
    /// Moves on the messages between this rank, its holders and its owners. Never waits. After an error every call
    /// fails: the expected data never comes, and other ranks wait for it.
    pub(super) fn progress(&mut self) -> Result<Progress> {
        let come = self.carry_on();
        self.epoch.post.note(come)
    }

    fn carry_on(&mut self) -> Result<Progress> {
        let SessionState { resources, epoch, levels, .. } = self;
        let group = epoch.group.between_two();
        let post = &mut epoch.post;
        for level in levels.iter_mut() {
            if let Some(Attempt::Copying(Copying { key, lane: Some(lane), .. })) = &mut level.saving {
                lane.start(group, post, *key)?;
            }
        }
        let awaits_memory = |owner: &usize| levels.iter().any(|level| level.awaits_memory_of(*owner));
        // Messages of a rank come in order, so those behind the shard wait too.
        let owners: Vec<usize> = post.senders().into_iter().filter(|owner| !awaits_memory(owner)).collect();
        for owner in owners {
            while let Some(letter) = post.next(group, owner)? {
                match letter {
                    Letter::Length(length) => post.receive(group, owner, room_for(length, owner)?)?,
                    Letter::Word(bytes) => match word(&bytes)? {
                        CopyWord::Size(_) | CopyWord::Parts(_) => return Err(out_of_turn(owner)),
                        CopyWord::Shard(announced) => {
                            let index = announced.level;
                            let (held, key) = held_in(levels.iter_mut().nth(index), owner)?;
                            for piece in held.take_on(*announced, key)? {
                                post.receive(group, owner, Letter::Piece(piece))?;
                            }
                            held.finish(resources.feeder(index)?);
                        }
                        CopyWord::GivenUp(index, failed) => {
                            held_in(levels.iter_mut().nth(index), owner)?.0.give_up(failed.on(owner));
                        }
                    },
                    Letter::Piece(piece) => {
                        let index = piece.level;
                        let (held, _) = held_in(levels.iter_mut().nth(index), owner)?;
                        let feeder = resources.feeder(index)?;
                        held.take(piece, feeder);
                        held.finish(feeder);
                    }
                }
            }
        }
        let mut are_through = post.is_through(group)?;
        let mut busy = Vec::new();
        for level in levels.iter_mut() {
            if let Some(Attempt::Copying(copying)) = &mut level.saving {
                let has_begun = copying.lane.as_ref().is_none_or(|lane| lane.poll().is_some());
                copying.is_through = are_through && has_begun;
                are_through &= has_begun;
                if copying.poll().is_none() {
                    busy.push(level.location.kind);
                }
            }
        }
        Ok(Progress { messages: are_through, busy })
    }

    /// Finishes the copies under way, on the level `only` or on all levels, and settles them with all ranks. Does
    /// nothing if there are none. Collective, for a call that has arrived.
    pub(super) fn finish_copies(&mut self, call: Call, only: Option<LevelKind>) -> Result<()> {
        if !self.levels.iter().any(|level| level.is_copy() && level.feeding.under_feed.is_some()) {
            return Ok(());
        }
        let entry = self.meet(call)?;
        // Copies on other levels may stay busy, but their messages must be through: they are ahead of later ones.
        self.drive(|now| now.messages && !now.busy.iter().any(|kind| only.is_none_or(|only| only == *kind)))?;
        let ranks = self.epoch.group.size();
        let mut mine = Agreement::default();
        for (level, facts) in self.levels.iter().zip(&mut mine.levels) {
            *facts = level.facts();
        }
        let all = mine.reach(self.epoch.group.with(&entry))?;
        for (level, facts) in self.levels.iter_mut().zip(&all.levels).filter(|(level, _)| level.is_copy()) {
            level.settle_farther(facts, ranks);
        }
        self.levels.note_joint(self.epoch.group.rank());
        Ok(())
    }

    /// Waits until the copies on this rank have come far enough, while the other ranks do the same.
    fn drive(&mut self, is_enough: impl Fn(&Progress) -> bool) -> Result<()> {
        let mut tries = 0;
        while !is_enough(&self.progress()?) {
            tries += 1;
            pause(tries);
        }
        Ok(())
    }

    /// Copies the last revision now, as published (paper 002, section 3.1: coordinated and blocking), if the setting
    /// `exchange` says so. Collective.
    pub(super) fn copy_now(&mut self, call: Call) -> Result<()> {
        if self.program.config.exchange != Exchange::Blocking {
            return Ok(());
        }
        // The call that settles the shard reports its failure.
        drop(self.levels.nearest_mut().settle());
        self.finish_copies(call, Some(LevelKind::Memory))
    }
}

/// Sends the size of this rank's next shard to the holder on `level`, and receives the sizes of the owners' shards.
/// Collective.
pub(super) fn swap_sizes(
    group: &dyn Group,
    post: &mut Post,
    level: &Level,
    mine: &Size,
    _: &Entered,
) -> Result<Vec<Size>> {
    let rank = group.rank();
    let (holder, owners) = (level.location.writers.of(rank), level.location.writers.shards_of(rank));
    if holder != rank {
        post.tell(group, holder, &CopyWord::Size(Box::new(mine.clone())))?;
    }
    owners.iter().for_each(|owner| post.expect(*owner));
    let mut sizes: Vec<Option<Size>> = vec![None; owners.len()];
    let mut tries = 0;
    loop {
        for (owner, known) in owners.iter().zip(&mut sizes) {
            while let Some(letter) = post.next(group, *owner)? {
                match letter {
                    Letter::Length(length) => post.receive(group, *owner, room_for(length, *owner)?)?,
                    Letter::Word(bytes) => match word(&bytes)? {
                        CopyWord::Size(size) => *known = Some(*size),
                        _ => return Err(out_of_turn(*owner)),
                    },
                    Letter::Piece(_) => return Err(out_of_turn(*owner)),
                }
            }
        }
        if post.is_through(group)? {
            break;
        }
        tries += 1;
        pause(tries);
    }
    sizes.into_iter().zip(owners).map(|(size, owner)| size.ok_or_else(|| out_of_turn(owner))).collect()
}

fn held_in(level: Option<&mut Level>, owner: usize) -> Result<(&mut ArrivingReplica, RevisionKey)> {
    match level.and_then(|level| level.saving.as_mut()) {
        Some(Attempt::Copying(Copying { key, held, .. })) => {
            held.iter_mut().find(|held| held.from == owner).map(|held| (held, *key)).ok_or_else(|| out_of_turn(owner))
        }
        _ => Err(out_of_turn(owner)),
    }
}

impl Resources {
    /// The thread that publishes on level `level`.
    fn feeder(&self, level: usize) -> Result<&Feeder> {
        let none = || Error::Internal { what: "nothing feeds the farther levels".to_owned() };
        level.checked_sub(1).and_then(|index| self.feeders.get(index)).ok_or_else(none)
    }
}
