//! Blocks of a portion as bits: lists of many stretches come out ascending without sorting.

use mainstay_format::Blocks;
use std::ops::Range;

const BITS: u64 = u64::BITS as u64;

/// A set of blocks with numbers in one range.
#[derive(Debug, Clone)]
pub(crate) struct BlockSet {
    /// The block number of the lowest bit.
    from: u64,
    words: Vec<u64>,
}

impl BlockSet {
    /// An empty set for blocks in `range`.
    pub(crate) fn within(range: Range<u64>) -> BlockSet {
        let from = range.start / BITS * BITS;
        let words = range.end.saturating_sub(from).div_ceil(BITS);
        BlockSet { from, words: vec![0; words as usize] }
    }

    /// The set of all blocks in `range`.
    pub(crate) fn all(range: Range<u64>) -> BlockSet {
        let mut set = BlockSet::within(range.clone());
        set.add(Blocks { first: range.start, count: range.end.saturating_sub(range.start) });
        set
    }

    /// The set of these blocks, and whether the stretches are disjoint.
    pub(crate) fn of(stretches: impl Iterator<Item = Blocks> + Clone) -> (BlockSet, bool) {
        let (mut set, mut are_apart) = (BlockSet::within(range_of(stretches.clone())), true);
        stretches.for_each(|blocks| are_apart &= set.add(blocks));
        (set, are_apart)
    }

    /// Adds those of these blocks that are in the range. Returns whether none of them was there before.
    pub(crate) fn add(&mut self, blocks: Blocks) -> bool {
        let mut are_new = true;
        self.each_word(blocks, |word, mask| {
            are_new &= *word & mask == 0;
            *word |= mask;
        });
        are_new
    }

    /// Removes those of these blocks that are in the set.
    pub(crate) fn remove(&mut self, blocks: Blocks) {
        self.each_word(blocks, |word, mask| *word &= !mask);
    }

    /// Calls `with` for each word that has bits for these blocks, with a mask of those bits.
    fn each_word(&mut self, blocks: Blocks, mut with: impl FnMut(&mut u64, u64)) {
        let end = blocks.end().saturating_sub(self.from).min(self.bits());
        let mut at = blocks.first.saturating_sub(self.from);
        while at < end {
            let (index, mask, count) = part(at, end);
            with(&mut self.words[index], mask);
            at += count;
        }
    }

    /// Adds the blocks of `other`, which has the same range.
    pub(crate) fn add_all(&mut self, other: &BlockSet) {
        debug_assert_eq!((self.from, self.words.len()), (other.from, other.words.len()));
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// Removes the blocks of `other`, which has the same range.
    pub(crate) fn remove_all(&mut self, other: &BlockSet) {
        debug_assert_eq!((self.from, self.words.len()), (other.from, other.words.len()));
        self.words.iter_mut().zip(&other.words).for_each(|(word, less)| *word &= !less);
    }

    /// Number of blocks in the set.
    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Number of its blocks in each segment of `segment_blocks` blocks, a multiple of 64, by the number of the segment;
    /// empty segments are left out.
    pub(crate) fn counts(&self, segment_blocks: u64) -> impl Iterator<Item = (u64, u64)> {
        debug_assert!(segment_blocks.is_multiple_of(BITS));
        let segment = |index: u64| (self.from + index * BITS) / segment_blocks;
        let mut counts = vec![0; segment(self.words.len() as u64) as usize + 1 - segment(0) as usize];
        for (index, word) in (0..).zip(&self.words) {
            counts[(segment(index) - segment(0)) as usize] += u64::from(word.count_ones());
        }
        (segment(0)..).zip(counts).filter(|(_, count)| *count > 0)
    }

    fn bits(&self) -> u64 {
        self.words.len() as u64 * BITS
    }

    /// Whether the set has all of these blocks, in or out of its range.
    pub(crate) fn has(&self, blocks: Blocks) -> bool {
        let ends = blocks.first.checked_add(blocks.count);
        let inside = blocks.first.checked_sub(self.from).zip(ends).map(|(at, end)| (at, end - self.from));
        let Some((mut at, end)) = inside.filter(|(_, end)| *end <= self.bits()) else {
            return false;
        };
        while at < end {
            let (index, mask, count) = part(at, end);
            if self.words[index] & mask != mask {
                return false;
            }
            at += count;
        }
        true
    }

    /// Its blocks as stretches that ascend and do not touch.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Blocks> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = self.next(from, 0)?;
            from = self.next(first, u64::MAX).unwrap_or(self.bits());
            Some(Blocks { first: self.from + first, count: from - first })
        })
    }

    /// The stretches of at least `at_least` blocks, highest first. Finds long ones without looking at the others.
    pub(crate) fn stretches_down(&self, at_least: u64) -> impl Iterator<Item = Blocks> + '_ {
        // Such a long stretch fills at least one word.
        let are_long = at_least >= 2 * BITS;
        let mut from = self.bits();
        std::iter::from_fn(move || {
            loop {
                let (inside, end) = if are_long {
                    let inside = self.whole_word_before(from)?;
                    (inside, self.next(inside, u64::MAX).unwrap_or(self.bits()))
                } else {
                    let last = self.last_before(from, 0)?;
                    (last, last + 1)
                };
                from = self.last_before(inside, u64::MAX).map_or(0, |unset| unset + 1);
                if end - from >= at_least {
                    return Some(Blocks { first: self.from + from, count: end - from });
                }
            }
        })
    }

    /// The first bit of the last full word before bit number `end`.
    fn whole_word_before(&self, end: u64) -> Option<u64> {
        let words = &self.words[..(end / BITS) as usize];
        words.iter().rposition(|word| *word == u64::MAX).map(|index| index as u64 * BITS)
    }

    /// The last set bit before number `end`; with all bits set in `flipped`, the last clear bit.
    fn last_before(&self, end: u64, flipped: u64) -> Option<u64> {
        let last = end.checked_sub(1)?;
        let mut index = (last / BITS) as usize;
        let mut word = (self.words[index] ^ flipped) & (u64::MAX >> (BITS - 1 - last % BITS));
        while word == 0 {
            index = index.checked_sub(1)?;
            word = self.words[index] ^ flipped;
        }
        Some(index as u64 * BITS + u64::from(word.ilog2()))
    }

    /// The next set bit from number `from` on; with all bits set in `flipped`, the next clear bit.
    fn next(&self, from: u64, flipped: u64) -> Option<u64> {
        let mut index = from / BITS;
        let mut word = (self.words.get(index as usize)? ^ flipped) & (u64::MAX << (from % BITS));
        while word == 0 {
            index += 1;
            word = self.words.get(index as usize)? ^ flipped;
        }
        Some(index * BITS + u64::from(word.trailing_zeros()))
    }
}

/// The index of the word that holds bit `at`, a mask of its bits from `at` up to `end`, and the number of those bits.
fn part(at: u64, end: u64) -> (usize, u64, u64) {
    let count = (BITS - at % BITS).min(end - at);
    ((at / BITS) as usize, (u64::MAX >> (BITS - count)) << (at % BITS), count)
}

/// The range from the first block of all to the one after the last.
pub(super) fn range_of(stretches: impl Iterator<Item = Blocks>) -> Range<u64> {
    let all = stretches.map(|blocks| blocks.first..blocks.end());
    all.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)).unwrap_or(0..0)
}

/// Whether a bit set orders this many stretches within a range faster than a sort. If few stretches are far apart,
/// there are too many words.
pub(crate) fn pays(stretches: usize, range: Range<u64>) -> bool {
    const WORDS_A_STRETCH: u64 = 16;
    range.end.saturating_sub(range.start) / BITS < WORDS_A_STRETCH * stretches as u64
}

/// Numbers the blocks of a set, counted from the lowest.
#[derive(Debug)]
pub(crate) struct Ranks {
    set: BlockSet,
    /// Number of blocks in the words before each word.
    before: Vec<u64>,
}

impl Ranks {
    pub(crate) fn of(set: BlockSet) -> Ranks {
        let mut end = 0;
        let before = set.words.iter().map(|word| {
            end += u64::from(word.count_ones());
            end - u64::from(word.count_ones())
        });
        Ranks { before: before.collect(), set }
    }

    /// Returns `None` if the set lacks the block.
    pub(crate) fn of_block(&self, block: u64) -> Option<u64> {
        let at = block.checked_sub(self.set.from)?;
        let (index, bit) = ((at / BITS) as usize, 1 << (at % BITS));
        let word = self.set.words.get(index).filter(|word| **word & bit != 0)?;
        Some(self.before[index] + u64::from((word & (bit - 1)).count_ones()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_set_has_its_blocks_ascending_and_numbered() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (from, span) = (random.u64(0..1000), random.u64(1..700));
            let some = |_| {
                let first = from + random.u64(0..span);
                Blocks { first, count: random.u64(0..=(from + span - first).min(150)) }
            };
            let count = seed % 8;
            let stretches: Vec<Blocks> = (0..count).map(some).collect();
            let all: Vec<u64> = stretches.iter().flat_map(|blocks| blocks.first..blocks.end()).collect();
            let each: BTreeSet<u64> = all.iter().copied().collect();
            let (set, are_apart) = BlockSet::of(stretches.iter().copied());
            assert_eq!(are_apart, all.len() == each.len(), "seed {seed}");
            let found: Vec<Blocks> = set.stretches().collect();
            assert!(found.iter().flat_map(|blocks| blocks.first..blocks.end()).eq(each.iter().copied()), "seed {seed}");
            for _ in 0..20 {
                let first = random.u64(0..from + span + 100);
                let asked = Blocks { first, count: random.u64(1..150) };
                let has = (asked.first..asked.end()).all(|block| each.contains(&block));
                assert_eq!(set.has(asked), has, "seed {seed}: {asked:?}");
            }
            assert!(!set.has(Blocks { first: from, count: u64::MAX }));
            assert!(found.windows(2).all(|pair| pair[0].end() < pair[1].first), "seed {seed}: {found:?}");
            assert_eq!(set.count(), each.len() as u64, "seed {seed}");
            for at_least in [0, 1, 2, 40, 127, 128, 129, 200] {
                let long = found.iter().rev().copied().filter(|blocks| blocks.count >= at_least);
                assert!(set.stretches_down(at_least).eq(long), "seed {seed}: at least {at_least}");
            }
            let range = from..from + span;
            let (mut rest, mut taken) = (BlockSet::all(range.clone()), BlockSet::within(range.clone()));
            assert!(rest.count() == span && rest.has(Blocks { first: from, count: span }));
            for (number, blocks) in stretches.iter().enumerate() {
                if number == 0 {
                    rest.remove(*blocks)
                } else {
                    _ = taken.add(*blocks)
                };
            }
            rest.remove_all(&taken);
            assert!(range.clone().all(|block| rest.has(Blocks { first: block, count: 1 }) != each.contains(&block)));
            let beyond = Blocks { first: 0, count: from + span + 1000 };
            taken.add(beyond);
            assert!(taken.has(Blocks { first: from, count: span }));
            let ranks = Ranks::of(set);
            for (number, block) in (0..).zip(&each) {
                assert_eq!(ranks.of_block(*block), Some(number), "seed {seed}");
            }
            let lacks = (0..from + span + 200).filter(|block| !each.contains(block));
            assert!(lacks.map(|block| ranks.of_block(block)).all(|number| number.is_none()), "seed {seed}");
        }
    }
}
