//! A set of shards as stretches: all shards of a revision are one stretch, however many there are.
//!
//! Invariant: the stretches ascend, and there is a gap between any two.

use serde::{Deserialize, Serialize};
use std::{iter, ops::Range};

/// The stretch of one shard.
pub(crate) fn one(shard: u32) -> Range<u32> {
    shard..shard.saturating_add(1)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardSet {
    stretches: Vec<Range<u32>>,
}

impl ShardSet {
    pub(crate) fn add(&mut self, shards: Range<u32>) {
        if shards.is_empty() {
            return;
        }
        let from = self.stretches.partition_point(|one| one.end < shards.start);
        let to = self.stretches.partition_point(|one| one.start <= shards.end);
        let joined =
            self.stretches[from..to].iter().fold(shards, |all, one| all.start.min(one.start)..all.end.max(one.end));
        self.stretches.splice(from..to, [joined]);
    }

    /// The number of shards.
    pub(crate) fn count(&self) -> u64 {
        self.stretches.iter().map(|one| u64::from(one.end - one.start)).sum()
    }

    /// Whether all these shards are in the set.
    pub(crate) fn has_all(&self, shards: &Range<u32>) -> bool {
        let last = self.stretches.partition_point(|one| one.start <= shards.start);
        let around = last.checked_sub(1).map(|last| &self.stretches[last]);
        shards.is_empty() || around.is_some_and(|one| shards.end <= one.end)
    }

    pub(crate) fn stretches(&self) -> impl Iterator<Item = Range<u32>> {
        self.stretches.iter().cloned()
    }

    /// The shards from 0 to `count` − 1 that are not in the set. `count` was read from a file, and may be huge.
    pub(crate) fn gaps(&self, count: u32) -> Vec<Range<u32>> {
        let ends = self.stretches().chain(iter::once(count..count));
        let gaps = ends.scan(0, |next, one| Some(std::mem::replace(next, one.end)..one.start.min(count)));
        gaps.filter(|gap| !gap.is_empty()).collect()
    }
}

impl Extend<Range<u32>> for ShardSet {
    fn extend<I: IntoIterator<Item = Range<u32>>>(&mut self, all: I) {
        all.into_iter().for_each(|shards| self.add(shards));
    }
}

impl FromIterator<Range<u32>> for ShardSet {
    fn from_iter<I: IntoIterator<Item = Range<u32>>>(all: I) -> ShardSet {
        let mut set = ShardSet::default();
        set.extend(all);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn gaps_are_stretches() {
        let set: ShardSet = [0..1, 2..4].into_iter().collect();
        assert_eq!(set.gaps(u32::MAX), [1..2, 4..u32::MAX]);
        assert_eq!(set.gaps(3), std::slice::from_ref(&(1..2)));
        assert_eq!(set.gaps(0), []);
    }

    #[test]
    fn stretches_are_the_numbers_in_them() {
        let mut random = fastrand::Rng::with_seed(41);
        for _ in 0..300 {
            let (mut set, mut numbers) = (ShardSet::default(), BTreeSet::new());
            for _ in 0..random.usize(0..12) {
                let from = random.u32(0..40);
                let shards = from..from + random.u32(0..6);
                numbers.extend(shards.clone());
                set.add(shards);
            }
            assert!(set.stretches.windows(2).all(|pair| pair[0].end < pair[1].start), "{set:?}");
            assert_eq!(set.count(), numbers.len() as u64);
            assert!(set.stretches().flatten().eq(numbers.iter().copied()), "{set:?}");
            let lacking = (0..30).filter(|shard| !numbers.contains(shard));
            assert!(set.gaps(30).into_iter().flatten().eq(lacking), "{set:?}");
            for from in 0..45 {
                let shards = from..from + 3;
                assert_eq!(set.has_all(&shards), shards.clone().all(|shard| numbers.contains(&shard)), "{set:?}");
            }
        }
    }
}
