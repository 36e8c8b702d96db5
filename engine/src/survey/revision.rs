//! A revision, as far as its shards were found.

use super::{Place, ShardSurvey, Verified};
use crate::{commit::RevisionKey, error::Result, restore::gaps, space::format::PhaseRecord};
use std::ops::Range;

#[derive(Debug)]
pub struct RevisionSurvey {
    pub key: RevisionKey,
    /// The id of the layout that the revision lies in.
    pub layout: [u8; 16],
    /// Somebody holds the revision: no job lets it go.
    pub held: bool,
    /// How many shards make the revision complete.
    pub shard_count: u32,
    pub complete: bool,
    /// The shards that were found, by number.
    pub shards: Vec<ShardSurvey>,
    /// Where it lies, the nearest place first; empty if the space alone was looked at.
    pub lies: Vec<Lying>,
}

/// What lies of a revision in one place.
#[derive(Debug)]
pub struct Lying {
    pub place: Place,
    /// Whether the place alone has the whole revision.
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
        gaps(self.shards.iter().map(|shard| shard.shard), self.shard_count)
    }

    /// Whether the newest root of every portion leads to the revision. A revision that only older roots lead to is on
    /// its way out: it is gone with the next root.
    pub fn is_in_newest_roots(&self) -> bool {
        self.shards.iter().all(|shard| shard.in_newest_root)
    }

    /// How many bytes `verify` reads, and tells of.
    pub fn block_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.block_bytes).sum()
    }

    /// The t1 of the rank that was first, in nanoseconds since 1970.
    pub fn t1_unix_ns(&self) -> u64 {
        self.shards.iter().map(|shard| shard.phases.t1_unix_ns).min().unwrap_or(0)
    }

    /// The step that the program had told at t1, if it had told one.
    pub fn step(&self) -> Option<u64> {
        self.shards.iter().map(|shard| shard.phases.step).max().filter(|step| *step > 0)
    }

    /// The longest t2 − t1 of all ranks, if the times of all are known.
    pub fn perceived_ns(&self) -> Option<u64> {
        self.longest(|phases| phases.perceived_ns)
    }

    /// The longest t3 − t1 of all ranks, if the times of all are known.
    pub fn durable_ns(&self) -> Option<u64> {
        self.longest(|phases| phases.durable_ns)
    }

    fn longest(&self, time_ns: fn(&PhaseRecord) -> u64) -> Option<u64> {
        let all = self.shards.iter().map(|shard| Some(time_ns(&shard.phases)).filter(|ns| *ns > 0));
        all.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Reads every block of every shard found and compares it with its hash; `progress` is told how
    /// many more bytes were good. A shard that cannot be read is damaged, and the others are read all
    /// the same.
    pub fn verify(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Verified> {
        verify_all(&self.shards, progress)
    }
}

impl Lying {
    /// How many bytes `verify` reads, and tells of.
    pub fn block_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.block_bytes).sum()
    }

    /// As that of a revision, of what lies in this place.
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
