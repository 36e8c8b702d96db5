//! Keeps long stretches of a portion free. Blocks that are left alone in sparsely used segments are staged again. New
//! blocks then need not be placed between them, and a whole shard finds room. The method is the cleaning of segments
//! of a log-structured file system (Rosenblum and Ousterhout 1992, section 3.4), the emptiest first, because here old
//! and new blocks are written equally often.
//!
//! Invariant: no block becomes clean that was not.

use super::{
    BlockRun,
    block_runs::{add, set_of},
};
use crate::space::{BlockSet, free::Blocks};

/// A write of this length is as fast as a longer one.
const SEGMENT_BLOCKS: u64 = 512;
/// Fuller segments stay as they are: more would be written than gained.
const SHARED_MAX: u64 = SEGMENT_BLOCKS / 4 * 3;

/// Marks the clean blocks in the emptiest segments of the portion for staging, up to `more` blocks. `shared`: the
/// blocks of the portion that `all_clean` uses; the marked ones are removed. `early`: blocks that no revision has yet;
/// they stay.
pub(super) fn vacate(all_clean: &mut [Vec<BlockRun>], more: u64, shared: &mut BlockSet, early: &[Blocks]) {
    let mut old = shared.clone();
    early.iter().for_each(|blocks| old.remove(*blocks));
    let few = emptiest(&old);
    let last = few.iter().map(|(segment, _)| *segment).max();
    let (mut left, mut goes) = (more, vec![false; last.map_or(0, |last| last as usize + 1)]);
    for (segment, count) in few {
        let Some(rest) = left.checked_sub(count) else { break };
        (left, goes[segment as usize]) = (rest, true);
    }
    if left == more {
        return;
    }
    let goes = |BlockRun { at, .. }: &BlockRun| {
        let is_in = goes.get(segment_of(*at) as usize).is_some_and(|goes| *goes);
        is_in && old.has(Blocks { first: *at, count: 1 })
    };
    for clean in all_clean.iter_mut() {
        let mut stay = Vec::with_capacity(clean.len());
        for part in clean.iter().flat_map(|lies| in_segments(*lies)) {
            if goes(&part) {
                shared.remove(Blocks { first: part.at, count: part.count });
            } else {
                add(&mut stay, part);
            }
        }
        *clean = stay;
    }
    debug_assert_eq!(set_of(all_clean).0.count(), shared.count(), "a block became clean, or stays shared in vain");
}

/// The segments of the portion with few of these blocks, the emptiest first, with their number of blocks.
pub(super) fn emptiest(blocks: &BlockSet) -> Vec<(u64, u64)> {
    let mut few: Vec<(u64, u64)> = blocks.counts(SEGMENT_BLOCKS).filter(|(_, count)| *count <= SHARED_MAX).collect();
    few.sort_unstable_by_key(|(_, count)| *count);
    few
}

/// The number of the segment of a block of the portion.
pub(super) fn segment_of(at: u64) -> u64 {
    at / SEGMENT_BLOCKS
}

/// The blocks split at the edges of segments. Zeros stay as they are, because they have no place.
fn in_segments(mut lies: BlockRun) -> impl Iterator<Item = BlockRun> {
    std::iter::from_fn(move || {
        let inside = if lies.are_zeros() { lies.count } else { SEGMENT_BLOCKS - lies.at % SEGMENT_BLOCKS };
        let part = BlockRun { count: lies.count.min(inside), ..lies };
        let BlockRun { block, at, count } = lies;
        lies = BlockRun { block: block + part.count, at: at + part.count, count: count - part.count };
        (part.count > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(clean: &[Vec<BlockRun>]) -> BlockSet {
        super::super::block_runs::set_of(clean).0
    }

    #[test]
    fn the_emptiest_segments_go_first_as_far_as_bytes_allow() {
        let at = |segment: u64, inside: u64| segment * SEGMENT_BLOCKS + inside;
        let lies = |block: u64, at: u64, count: u64| BlockRun { block, at, count };
        // Segment 2 has 30 blocks; 3 has 20, which continue in 4, 100 in all; 5 has 40, saved early; 6 is full except
        // for one.
        let all = [
            vec![lies(0, at(2, 7), 30), lies(30, at(4, 0) - 20, 120), lies(150, at(5, 9), 40)],
            vec![BlockRun::zeros(0, 50), lies(50, at(6, 1), SEGMENT_BLOCKS - 1)],
        ];
        let of = |more: u64| {
            let (mut clean, mut shared) = (all.clone(), set_of(&all));
            vacate(&mut clean, more, &mut shared, &[Blocks { first: at(5, 0), count: 100 }]);
            assert_eq!(shared.stretches().collect::<Vec<_>>(), set_of(&clean).stretches().collect::<Vec<_>>());
            clean
        };
        let [_, _, early] = all[0][..] else { panic!() };
        assert_eq!(of(19), all);
        let rest = lies(50, at(4, 0), 100);
        assert_eq!(of(20), [vec![all[0][0], rest, early], all[1].clone()]);
        assert_eq!(of(149), [vec![rest, early], all[1].clone()]);
        // Full segments and zeros stay.
        assert_eq!(of(u64::MAX), [vec![early], all[1].clone()]);
    }

    /// Story: with pages written at random, old logs held so many places that a log found none. Every 17th time, a
    /// shard was saved whole, twice.
    #[test]
    fn a_log_goes_on_finding_a_stretch() {
        const BLOCKS: u64 = 40_000;
        const CHANGED: u64 = BLOCKS / 10;
        let mut random = fastrand::Rng::with_seed(1);
        let mut newest: Vec<u64> = (0..BLOCKS).collect();
        let mut before = newest.clone();
        for revision in 2..80 {
            let mut used = vec![false; 3 * BLOCKS as usize];
            newest.iter().chain(&before).for_each(|at| used[*at as usize] = true);
            let mut clean = vec![Vec::new()];
            for (block, at) in (0..).zip(&newest).filter(|_| random.u64(..BLOCKS) >= CHANGED) {
                add(&mut clean[0], BlockRun { block, at: *at, count: 1 });
            }
            let mut shared = set_of(&clean);
            vacate(&mut clean, CHANGED / 5, &mut shared, &[]);
            let written = BLOCKS - clean[0].iter().map(|lies| lies.count).sum::<u64>();
            let stretch = used.split(|used| *used).find(|free| free.len() as u64 >= written);
            let stretch = stretch.unwrap_or_else(|| panic!("revision {revision} finds no stretch of {written} blocks"));
            let mut at = stretch.as_ptr().addr() as u64 - used.as_ptr().addr() as u64;
            let mut places: Vec<Option<u64>> = vec![None; BLOCKS as usize];
            clean[0]
                .iter()
                .for_each(|lies| (0..lies.count).for_each(|i| places[(lies.block + i) as usize] = Some(lies.at + i)));
            let place = |kept: &Option<u64>| {
                kept.unwrap_or_else(|| {
                    at += 1;
                    at - 1
                })
            };
            before = std::mem::replace(&mut newest, places.iter().map(place).collect());
        }
    }
}
