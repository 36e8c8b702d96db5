//! A revision, as far as its shards were found.

use super::{Place, ShardSurvey, Verified};
use crate::{
    commit::RevisionKey,
    error::Result,
    restore::{ShardSet, one},
    space::format::PhaseRecord,
};
use std::ops::Range;

#[derive(Debug)]
pub struct RevisionSurvey {
    pub key: RevisionKey,
    /// The id of the revision's layout.
    pub layout: [u8; 16],
    /// A hold keeps the revision: no job removes it.
    pub held: bool,
    /// The number of shards of the complete revision.
    pub shard_count: u32,
    pub complete: bool,
    /// The shards that were found, by number.
    pub shards: Vec<ShardSurvey>,
    /// Its places, the nearest first; empty if only the space was searched.
    pub parts: Vec<RevisionPart>,
}

/// The part of a revision in one place.
#[derive(Debug)]
pub struct RevisionPart {
    pub place: Place,
    /// Whether this place has the whole revision.
    pub whole: bool,
    /// The shards that were found there, by number.
    pub shards: Vec<ShardSurvey>,
}

impl RevisionSurvey {
    /// Bytes of all items of the shards that were found.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().fold(0, |sum, shard| sum.saturating_add(shard.bytes))
    }

    /// The numbers of the shards that were not found, ascending.
    pub fn missing(&self) -> Vec<Range<u32>> {
        self.shards.iter().map(|shard| one(shard.shard)).collect::<ShardSet>().gaps(self.shard_count)
    }

    /// Whether the newest root of every portion refers to the revision. A revision that only older roots refer to
    /// disappears with the next root.
    pub fn is_in_newest_roots(&self) -> bool {
        self.shards.iter().all(|shard| shard.in_newest_root)
    }

    /// The number of bytes that `verify` reads and reports.
    pub fn block_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.block_bytes).sum()
    }

    /// The t1 of the earliest rank, in nanoseconds since 1970.
    pub fn t1_unix_ns(&self) -> u64 {
        self.shards.iter().map(|shard| shard.phases.t1_unix_ns).min().unwrap_or(0)
    }

    /// The step that the program had set at t1, if any.
    pub fn step(&self) -> Option<u64> {
        self.shards.iter().map(|shard| shard.phases.step).max().filter(|step| *step > 0)
    }

    /// The longest t2 − t1 of all ranks, if all times are known.
    pub fn perceived_ns(&self) -> Option<u64> {
        self.longest(|phases| phases.perceived_ns)
    }

    /// The longest t3 − t1 of all ranks, if all times are known.
    pub fn durable_ns(&self) -> Option<u64> {
        self.longest(|phases| phases.durable_ns)
    }

    fn longest(&self, time_ns: fn(&PhaseRecord) -> u64) -> Option<u64> {
        let all = self.shards.iter().map(|shard| Some(time_ns(&shard.phases)).filter(|ns| *ns > 0));
        all.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Reads every block of every found shard and compares it with its hash. `progress` gets the number of further good
    /// bytes. An unreadable shard counts as damaged, and the others are still read.
    pub fn verify(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Verified> {
        verify_all(&self.shards, progress)
    }
}

impl RevisionPart {
    /// The number of bytes that `verify` reads and reports.
    pub fn block_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.block_bytes).sum()
    }

    /// The same for the part in this place.
    pub fn verify(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Verified> {
        verify_all(&self.shards, progress)
    }
}

fn verify_all(shards: &[ShardSurvey], progress: &(dyn Fn(u64) + Sync)) -> Result<Verified> {
    let (mut damage, mut let_go) = (Vec::new(), false);
    for shard in shards {
        match shard.verify(progress)? {
            Verified::Whole => {}
            Verified::Damaged { what } => damage.extend(what),
            Verified::LetGo => let_go = true,
        }
    }
    Ok(match (damage.is_empty(), let_go) {
        (false, _) => Verified::Damaged { what: damage },
        (true, true) => Verified::LetGo,
        (true, false) => Verified::Whole,
    })
}
