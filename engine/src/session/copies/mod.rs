//! Copies of shards on other nodes. A level's copy is a level of its own. Its portions are written by *holders*; each
//! holder writes the shards of some *owners*. The owner publishes its shard on the nearest level, and the blocks are sent
//! from there.
//!
//! `lane` is the owner's side, `replica` the holder's side. `parts` handles shards that a rank reads in part, `post` the
//! messages, `words` their contents. The callers decide when to copy (`copying`, `recopy`, `fetch`).
//!
//! Invariants: only its holder writes a portion; messages are started and tested only in calls of the program; a rank
//! waits for messages only while all ranks are in one call; the blocks of the source stay until the last message has
//! arrived.

mod lane;
mod parts;
mod post;
mod replica;
mod roles;
#[cfg(test)]
mod tests;
mod words;

pub(super) use lane::{CopyLane, announce};
pub(super) use parts::{PartsToCome, announce_parts};
pub(super) use post::{Letter, Post, room_for, word};
#[cfg(feature = "fuzzing")]
pub(crate) use post::{read_word, words_of};
pub(super) use replica::ArrivingReplica;
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
    pub(super) held: Vec<ArrivingReplica>,
    /// All messages of this rank have arrived.
    pub(super) is_through: bool,
    /// The revision was complete before, and its shards are in several layouts.
    pub(super) is_again: bool,
}

impl Copying {
    /// Copies the revision `key`: from this rank by `lane`, and to the portions of `held` on this rank.
    pub(super) fn new(key: RevisionKey, lane: Option<CopyLane>, held: Vec<ArrivingReplica>) -> Copying {
        Copying { key, lane, held, is_through: false, is_again: false }
    }

    /// The failure to report for this rank. None if the shard was given up before; that is reported elsewhere.
    pub(super) fn failure(&self) -> Result<()> {
        let lane = self.lane.iter().map(CopyLane::failure);
        lane.chain(self.held.iter().map(ArrivingReplica::failure)).collect()
    }

    pub(super) fn is_again(&self) -> bool {
        self.is_again
    }

    pub(super) fn key(&self) -> RevisionKey {
        self.key
    }

    /// The contents of this rank's shard at the holder once it has arrived, if they are remembered.
    pub(super) fn sent(&self) -> Option<(RevisionKey, Arc<Base>)> {
        let sent = self.lane.as_ref().and_then(|lane| lane.sent.clone());
        sent.map(|sent| (self.key, sent))
    }

    /// The outcome on this rank, without waiting; `None` while it is under way.
    pub(super) fn poll(&self) -> Option<Result<()>> {
        if !self.is_through {
            return None;
        }
        let lane = self.lane.iter().map(CopyLane::poll);
        let ended: Option<Vec<Result<()>>> = lane.chain(self.held.iter().map(ArrivingReplica::poll)).collect();
        ended.map(|ended| ended.into_iter().collect())
    }
}

/// The error if a rank sends an unexpected message.
pub(super) fn out_of_turn(rank: usize) -> Error {
    Error::Internal { what: format!("rank {rank} sends what nobody waits for") }
}
