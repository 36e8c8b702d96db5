//! Copies of shards on other nodes. A level's copy is a level of its own, whose portions the *holders* write, each those
//! of its *wards*; a shard goes there from the blocks that its owner has published on the nearest level. `lane` is what
//! a ward does, `held` what a holder does, `parts` what a rank has of a shard that it reads in part, `post` how messages travel, `words` what they say. Here nobody asks when: that
//! is decided where the levels are known (`copying`, `again`, `fetch`).
//!
//! What must hold: a portion has one writer, its holder; messages are started and tested in calls of the program alone;
//! ranks wait for them only where all are in one call; the blocks of the source stay until the last message is through.

mod held;
mod lane;
mod parts;
mod post;
mod roles;
#[cfg(test)]
mod tests;
mod words;

pub(super) use held::HeldShard;
pub(super) use lane::{CopyLane, announce};
pub(super) use parts::{PartsToCome, announce_parts};
pub(super) use post::{Letter, Post, room_for, word};
pub(super) use roles::{can_exchange, holders};
pub(super) use words::CopyWord;

use crate::{
    capture::Base,
    commit::RevisionKey,
    error::{Error, Result},
};
use std::sync::Arc;

/// A revision on its way to the holders.
pub(super) struct Copying {
    pub(super) key: RevisionKey,
    /// `None` if this rank has no holder on the level.
    pub(super) lane: Option<CopyLane>,
    pub(super) held: Vec<HeldShard>,
    /// All messages of this rank are through.
    pub(super) is_through: bool,
    /// The revision was complete before, and lies in more than one layout.
    pub(super) is_again: bool,
}

impl Copying {
    /// The revision `key`, which goes from this rank by `lane`, and to the portions of what is `held` here.
    pub(super) fn new(key: RevisionKey, lane: Option<CopyLane>, held: Vec<HeldShard>) -> Copying {
        Copying { key, lane, held, is_through: false, is_again: false }
    }

    /// What is to be told of this rank's part: a failure, unless the shard was given up before, which is told elsewhere.
    pub(super) fn failure(&self) -> Result<()> {
        let lane = self.lane.iter().map(CopyLane::failure);
        lane.chain(self.held.iter().map(HeldShard::failure)).collect()
    }

    pub(super) fn is_again(&self) -> bool {
        self.is_again
    }

    pub(super) fn key(&self) -> RevisionKey {
        self.key
    }

    /// What the holder has of this rank's shard once it has it, if that is remembered.
    pub(super) fn sent(&self) -> Option<(RevisionKey, Arc<Base>)> {
        let sent = self.lane.as_ref().and_then(|lane| lane.sent.clone());
        sent.map(|sent| (self.key, sent))
    }

    /// What became of this rank's part, without waiting; `None` while it is under way.
    pub(super) fn poll(&self) -> Option<Result<()>> {
        if !self.is_through {
            return None;
        }
        let lane = self.lane.iter().map(CopyLane::poll);
        let ended: Option<Vec<Result<()>>> = lane.chain(self.held.iter().map(HeldShard::poll)).collect();
        ended.map(|ended| ended.into_iter().collect())
    }
}

/// A rank sends what it is not asked for.
pub(super) fn out_of_turn(rank: usize) -> Error {
    Error::Internal { what: format!("rank {rank} sends what nobody waits for") }
}
