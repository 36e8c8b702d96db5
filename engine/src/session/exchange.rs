//! Sends the shards, or parts of them, that other ranks read, and receives those that this rank reads.
//!
//! Invariant: all ranks agree on the sender and the receiver of each shard.

use super::{
    copies::{
        ArrivingReplica, CopyWord, Letter, PartsToCome, Post, announce, announce_parts, out_of_turn, room_for, word,
    },
    levels::Levels,
    shard_transfers::{ShardParts, StoredShard},
};
use crate::{
    commit::Complete,
    error::{Error, ErrorKind, Failure, Result},
    feed::{Feeder, Source},
    ground::{pause, threads_at_once},
    group::Group,
    restore::WantedItem,
};
use std::collections::BTreeMap;

/// A shard that a rank needs, whole or in part, and the sender.
pub(super) struct ShardRequest {
    pub(super) to: usize,
    pub(super) shard: usize,
    /// `None`: the whole shard.
    pub(super) items: Option<Vec<WantedItem>>,
    /// The index in the shard's list of locations.
    pub(super) location: usize,
    pub(super) level: usize,
    pub(super) from: usize,
}

/// A shard, or parts of it, as this rank got it.
pub(super) enum ReceivedShard {
    /// The shard is on this rank, on that level.
    Here(usize),
    Whole(StoredShard),
    Parts(Box<ShardParts>),
}

enum Arriving {
    Whole(ArrivingReplica),
    Parts(PartsToCome),
}

impl Arriving {
    fn is_there(&self) -> bool {
        match self {
            Arriving::Whole(held) => held.is_there(),
            Arriving::Parts(parts) => parts.is_there(),
        }
    }

    fn give_up(&mut self, error: Error) {
        match self {
            Arriving::Whole(held) => held.give_up(error),
            Arriving::Parts(parts) => parts.give_up(error),
        }
    }

    fn take(&mut self, letter: Letter, from: usize, candidate: &Complete, feeder: &Feeder) -> Result<Vec<Letter>> {
        let expected = match (letter, &mut *self) {
            (Letter::Length(length), _) => return Ok(vec![room_for(length, from)?]),
            (Letter::Piece(piece), Arriving::Whole(held)) => {
                held.take(piece, feeder);
                Vec::new()
            }
            (Letter::Piece(piece), Arriving::Parts(parts)) => {
                parts.take(piece);
                Vec::new()
            }
            (Letter::Word(bytes), coming) => match (word(&bytes)?, coming) {
                (CopyWord::Shard(announced), Arriving::Whole(held)) => held.take_on(*announced, candidate.key)?,
                (CopyWord::Parts(announced), Arriving::Parts(parts)) => {
                    parts.take_on(from, *announced, candidate.key)?
                }
                (CopyWord::GivenUp(_, failed), coming) => {
                    coming.give_up(failed.on(from));
                    Vec::new()
                }
                _ => return Err(out_of_turn(from)),
            },
        };
        match self {
            Arriving::Whole(held) => held.finish(feeder),
            Arriving::Parts(parts) => parts.finish(),
        }
        Ok(expected.into_iter().map(Letter::Piece).collect())
    }

    fn came(self, location: usize) -> Result<ReceivedShard> {
        let came = match self {
            Arriving::Whole(held) => held.published().map(ReceivedShard::Whole),
            Arriving::Parts(parts) => parts.came().map(|(portion, entry, blocks)| {
                ReceivedShard::Parts(Box::new(ShardParts { location, portion, entry, blocks }))
            }),
        };
        came.map_err(damage_that_came)
    }
}

/// Damage reported by another rank counts as damage here, not as a failed read: another location may have the shard whole.
fn damage_that_came(error: Error) -> Error {
    match error {
        Error::NotSaved { failure, .. } if failure.kind == ErrorKind::Damaged => Error::damaged(failure.message),
        Error::OnRank { .. } if error.kind() == ErrorKind::Damaged => Error::damaged(error.to_string()),
        error => error,
    }
}

/// The portion of this rank on `level` with its shard of `candidate`.
pub(super) fn here(levels: &Levels, level: usize, shard: usize, candidate: &Complete) -> Result<StoredShard> {
    let gone = || Error::Internal { what: format!("shard {shard} is not where it was found") };
    levels.at(level).stored(shard as u32, candidate).ok_or_else(gone)
}

/// Sends the shards that other ranks want from this one, and receives those that this rank wants. Returns each want of
/// this rank with its result, in any order. Collective, with the same `wants` on all ranks.
pub(super) fn exchange<'w>(
    group: &dyn Group,
    post: &mut Post,
    levels: &Levels,
    candidate: &Complete,
    wants: &'w [ShardRequest],
) -> Result<Vec<(&'w ShardRequest, Result<ReceivedShard>)>> {
    let (rank, threads) = (group.rank(), threads_at_once(group.ranks_here()));
    let mut came = Vec::new();
    let mut queues: BTreeMap<usize, Vec<(&ShardRequest, Arriving)>> = BTreeMap::new();
    for want in wants {
        let &ShardRequest { to, shard, level, from, .. } = want;
        match (from == rank, to == rank) {
            (true, true) => came.push((want, Ok(ReceivedShard::Here(level)))),
            (true, false) => send(group, post, levels, candidate, want)?,
            (false, true) => {
                post.expect(from);
                let coming = match want.items {
                    Some(_) => Arriving::Parts(PartsToCome::of(shard as u32)),
                    None => {
                        let device = levels.at(level).location.device.clone();
                        Arriving::Whole(ArrivingReplica::to_read(from, shard as u32, device, threads))
                    }
                };
                queues.entry(from).or_default().push((want, coming));
            }
            (false, false) => {}
        }
    }
    // Threads verify pieces while others come, unless no thread can start.
    let feeder = if queues.is_empty() { None } else { Feeder::start(threads).ok() };
    let feeder = feeder.unwrap_or_else(Feeder::without_thread);
    let mut tries = 0;
    loop {
        for (&from, queue) in &mut queues {
            while let Some(letter) = post.next(group, from)? {
                // Shards come one after the other.
                let coming = queue.iter_mut().map(|(_, coming)| coming).find(|coming| !coming.is_there());
                let Some(coming) = coming else { return Err(out_of_turn(from)) };
                for expected in coming.take(letter, from, candidate, &feeder)? {
                    post.receive(group, from, expected)?;
                }
            }
        }
        if post.is_through(group)? {
            break;
        }
        tries += 1;
        pause(tries);
    }
    let brought = queues.into_values().flatten().map(|(want, coming)| (want, coming.came(want.location)));
    came.extend(brought);
    Ok(came)
}

/// Starts to send a shard on this rank, or parts of it, to another rank.
fn send(group: &dyn Group, post: &mut Post, levels: &Levels, candidate: &Complete, want: &ShardRequest) -> Result<()> {
    let &ShardRequest { to, shard, level, .. } = want;
    let found = here(levels, level, shard, candidate);
    let announced = found.and_then(|(portion, kept)| match &want.items {
        Some(items) => {
            let (announced, stretches) = announce_parts(&portion, &kept, level, items)?;
            Ok((CopyWord::Parts(Box::new(announced)), stretches))
        }
        None => {
            let (announced, stretches, _) = announce(&Source::Published(portion, kept), level, candidate.key, None)?;
            Ok((CopyWord::Shard(Box::new(announced)), stretches))
        }
    });
    match announced {
        Ok((word, stretches)) => {
            post.tell(group, to, &word)?;
            stretches.into_iter().try_for_each(|stretch| post.send(group, to, Box::new(stretch)))
        }
        Err(error) => post.tell(group, to, &CopyWord::GivenUp(level, Failure::cause(&error))),
    }
}
