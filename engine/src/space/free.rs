//! The map of free blocks, computed from the references of the slots and never stored.

pub(crate) use mainstay_format::Blocks;

use super::block_set::{self, BlockSet};

/// Merges stretches: the same blocks in stretches that ascend and do not touch.
pub(crate) fn united(mut blocks: Vec<Blocks>) -> Vec<Blocks> {
    blocks.retain(|blocks| blocks.count > 0);
    if block_set::pays(blocks.len(), block_set::range_of(blocks.iter().copied())) {
        return BlockSet::of(blocks.iter().copied()).0.stretches().collect();
    }
    blocks.sort();
    let mut united: Vec<Blocks> = Vec::with_capacity(blocks.len());
    for next in blocks {
        match united.last_mut() {
            Some(last) if next.first <= last.end() => last.count = last.count.max(next.end() - last.first),
            _ => united.push(next),
        }
    }
    debug_assert!(united.windows(2).all(|pair| pair[0].end() < pair[1].first), "stretches touch");
    united
}

/// Whether `united`, a result of the function above, contains all of `blocks`.
pub(crate) fn is_among(united: &[Blocks], blocks: Blocks) -> bool {
    let behind = united.partition_point(|stretch| stretch.first <= blocks.first);
    let end = blocks.first.checked_add(blocks.count);
    behind.checked_sub(1).is_some_and(|index| end.is_some_and(|end| end <= united[index].end()))
}

/// Lengths of stretches, in blocks, to try in order: each stretch costs one write call.
const LENGTHS: [u64; 4] = [512, 64, 8, 1];

/// Free blocks; they are found by stretches.
#[derive(Debug, Clone)]
pub(crate) struct FreeMap(Form);

#[derive(Debug, Clone)]
enum Form {
    /// Ascending, never empty, never touching.
    Stretches(Vec<Blocks>),
    /// For many stretches: a step of a rehearsal iterates over words, of which there are fewer.
    Bits(BlockSet),
}

impl FreeMap {
    /// The map of the blocks in `from..to` that are not in `used`.
    pub(crate) fn new(from: u64, to: u64, used: impl IntoIterator<Item = Blocks>) -> FreeMap {
        let used: Vec<Blocks> = used.into_iter().collect();
        if block_set::pays(used.len(), from..to) {
            let mut free = BlockSet::all(from..to);
            used.iter().for_each(|used| free.remove(*used));
            return FreeMap::of(free);
        }
        let (mut stretches, mut next) = (Vec::new(), from);
        for blocks in united(used) {
            if blocks.first > next {
                stretches.push(Blocks { first: next, count: blocks.first - next });
            }
            next = next.max(blocks.end());
        }
        if next < to {
            stretches.push(Blocks { first: next, count: to - next });
        }
        FreeMap(Form::Stretches(stretches))
    }

    /// The map of the blocks of a set.
    pub(crate) fn of(free: BlockSet) -> FreeMap {
        FreeMap(Form::Bits(free))
    }

    /// Whether all of `blocks` are free.
    pub(crate) fn has(&self, blocks: Blocks) -> bool {
        match &self.0 {
            Form::Stretches(stretches) => is_among(stretches, blocks),
            Form::Bits(free) => free.has(blocks),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        match &self.0 {
            Form::Stretches(stretches) => stretches.iter().map(|s| s.count).sum(),
            Form::Bits(free) => free.count(),
        }
    }

    /// Removes the blocks `used` from the map; some may be missing already.
    pub(crate) fn cut(&mut self, used: Blocks) {
        let stretches = match &mut self.0 {
            Form::Stretches(stretches) => stretches,
            Form::Bits(free) => return free.remove(used),
        };
        let first = stretches.partition_point(|stretch| stretch.end() <= used.first);
        let end = stretches.partition_point(|stretch| stretch.first < used.end());
        if used.count == 0 || first >= end {
            return;
        }
        let (begins, ends) = (stretches[first].first, stretches[end - 1].end());
        let before = Blocks { first: begins, count: used.first.saturating_sub(begins) };
        let behind = Blocks { first: used.end(), count: ends.saturating_sub(used.end()) };
        stretches.splice(first..end, [before, behind].into_iter().filter(|left| left.count > 0));
    }

    /// Takes one stretch of `count` blocks from the high end, where small data goes: from the shortest stretch that is
    /// long enough, so that long ones stay whole.
    pub(crate) fn take_high(&mut self, count: u64) -> Option<Blocks> {
        let stretch = match &self.0 {
            Form::Stretches(stretches) => shortest(stretches.iter().rev().copied(), count),
            Form::Bits(free) => shortest(free.stretches_down(count), count),
        };
        let taken = Blocks { first: stretch?.end() - count, count };
        debug_assert!(self.has(taken), "blocks are taken that are not free");
        self.cut(taken);
        Some(taken)
    }

    /// Takes `count` blocks from the low end: one stretch if possible, else several, ascending. Uses no short stretches
    /// if longer ones have enough blocks.
    pub(crate) fn take_low(&mut self, count: u64) -> Option<Vec<Blocks>> {
        if count == 0 || self.count() < count {
            return (count == 0).then(Vec::new);
        }
        let whole = match &self.0 {
            Form::Stretches(stretches) => stretches.iter().find(|stretch| stretch.count >= count).copied(),
            Form::Bits(free) => free.stretches_down(count).last(),
        };
        if let Some(Blocks { first, .. }) = whole {
            self.cut(Blocks { first, count });
            return Some(vec![Blocks { first, count }]);
        }
        let taken = match &self.0 {
            Form::Stretches(stretches) => lowest(|| stretches.iter().copied(), count),
            Form::Bits(free) => lowest_long(free, count).unwrap_or_else(|| lowest(|| free.stretches(), count)),
        };
        debug_assert!(taken.iter().all(|taken| self.has(*taken)), "blocks are taken that are not free");
        debug_assert_eq!(taken.iter().map(|taken| taken.count).sum::<u64>(), count, "too few blocks are taken");
        taken.iter().for_each(|taken| self.cut(*taken));
        Some(taken)
    }
}

/// The first of the shortest stretches with at least `count` blocks.
fn shortest(stretches: impl Iterator<Item = Blocks>, count: u64) -> Option<Blocks> {
    let mut shortest: Option<Blocks> = None;
    for stretch in stretches.filter(|stretch| stretch.count >= count) {
        if shortest.is_none_or(|shortest| stretch.count < shortest.count) {
            shortest = Some(stretch);
        }
        if stretch.count == count {
            break;
        }
    }
    shortest
}

/// The same as `lowest`, if the longest stretches have enough blocks; finds those without looking at the others.
fn lowest_long(free: &BlockSet, count: u64) -> Option<Vec<Blocks>> {
    let mut long: Vec<Blocks> = free.stretches_down(LENGTHS[0]).collect();
    long.reverse();
    let blocks: u64 = long.iter().map(|stretch| stretch.count).sum();
    (blocks >= count).then(|| lowest(|| long.iter().copied(), count))
}

/// The first `count` blocks of the longest stretches that have that many; `stretches` has that many in all.
fn lowest<I: Iterator<Item = Blocks>>(stretches: impl Fn() -> I, count: u64) -> Vec<Blocks> {
    let mut in_longer = [0; LENGTHS.len()];
    for stretch in stretches() {
        for (sum, least) in in_longer.iter_mut().zip(LENGTHS) {
            *sum += if stretch.count >= least { stretch.count } else { 0 };
        }
        if in_longer[0] >= count {
            break;
        }
    }
    let least = LENGTHS.into_iter().zip(in_longer).find(|(_, sum)| *sum >= count).map_or(1, |(least, _)| least);
    let (mut lowest, mut missing) = (Vec::new(), count);
    for stretch in stretches().filter(|stretch| stretch.count >= least) {
        let part = Blocks { first: stretch.first, count: stretch.count.min(missing) };
        missing -= part.count;
        lowest.push(part);
        if missing == 0 {
            break;
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(first: u64, count: u64) -> Blocks {
        Blocks { first, count }
    }

    fn listed(from: u64, to: u64, used: &[Blocks]) -> FreeMap {
        let mut map = FreeMap::new(from, to, []);
        used.iter().for_each(|used| map.cut(*used));
        map
    }

    fn in_bits(from: u64, to: u64, used: &[Blocks]) -> FreeMap {
        let mut free = BlockSet::all(from..to);
        used.iter().for_each(|used| free.remove(*used));
        FreeMap::of(free)
    }

    impl FreeMap {
        fn stretches(&self) -> Vec<Blocks> {
            match &self.0 {
                Form::Stretches(stretches) => stretches.clone(),
                Form::Bits(free) => free.stretches().collect(),
            }
        }
    }

    #[test]
    fn free_is_what_nobody_uses() {
        let used = [blocks(40, 10), blocks(32, 2), blocks(45, 10), blocks(90, 10)];
        for map in [listed(32, 100, &used), in_bits(32, 100, &used)] {
            assert_eq!(map.stretches(), [blocks(34, 6), blocks(55, 35)]);
            assert_eq!(map.count(), 41);
        }
    }

    #[test]
    fn blocks_that_several_refer_to_are_counted_once() {
        let all =
            united(vec![blocks(40, 10), blocks(3, 0), blocks(10, 5), blocks(45, 2), blocks(15, 1), blocks(48, 9)]);
        assert_eq!(all, [blocks(10, 6), blocks(40, 17)]);
        for (asked, is_in) in [(blocks(10, 6), true), (blocks(41, 16), true), (blocks(15, 2), false)] {
            assert_eq!(is_among(&all, asked), is_in, "{asked:?}");
        }
        assert!(!is_among(&all, blocks(9, 2)) && !is_among(&all, blocks(50, u64::MAX)));
    }

    /// Both forms give the same blocks for any request; those were free and are not any more.
    #[test]
    fn lists_and_bits_give_the_same() {
        for seed in 0..2000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (from, to) = (random.u64(0..200), random.u64(300..1500));
            // Beyond both ends too. Some are so short that hardly a whole word is free, and some leave long stretches.
            let longest = [3, 20, 300][random.usize(..3)];
            let mut some = || blocks(random.u64(0..1600), random.u64(1..=longest));
            let used: Vec<Blocks> = (0..seed % 90).map(|_| some()).collect();
            let (mut list, mut bits) = (listed(from, to, &used), in_bits(from, to, &used));
            for step in 0..12 {
                assert_eq!(list.stretches(), bits.stretches(), "seed {seed}, step {step}");
                assert_eq!(list.count(), bits.count(), "seed {seed}, step {step}");
                let asked = blocks(random.u64(0..1600), random.u64(1..=longest));
                assert_eq!(list.has(asked), bits.has(asked), "seed {seed}, step {step}: {asked:?}");
                let (before, count) = (list.clone(), random.u64(0..=longest));
                let taken = match random.u8(..3) {
                    0 => {
                        list.cut(asked);
                        bits.cut(asked);
                        continue;
                    }
                    1 => [list.take_high(count), bits.take_high(count)].map(|taken| taken.map(|taken| vec![taken])),
                    _ => [list.take_low(count), bits.take_low(count)],
                };
                assert_eq!(taken[0], taken[1], "seed {seed}, step {step}: {count} blocks");
                for taken in taken[0].iter().flatten().filter(|taken| taken.count > 0) {
                    assert!(before.has(*taken) && !list.has(blocks(taken.first, 1)), "seed {seed}, step {step}");
                }
                let taken = taken[0].as_ref().map_or(0, |taken| taken.iter().map(|taken| taken.count).sum());
                assert_eq!(list.count() + taken, before.count(), "seed {seed}, step {step}");
            }
        }
    }

    #[test]
    fn what_is_cut_out_is_not_free() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let mut some = || blocks(random.u64(0..100), random.u64(1..20));
            let used: Vec<Blocks> = (0..6).map(|_| some()).collect();
            let mut map = listed(10, 130, &used[..3]);
            used[3..].iter().for_each(|used| map.cut(*used));
            assert_eq!(united(map.stretches()), listed(10, 130, &used).stretches(), "{used:?}");
            assert!(map.stretches().iter().all(|stretch| stretch.count > 0), "{map:?}");
        }
    }

    #[test]
    fn data_goes_low_in_one_stretch_where_it_can() {
        for form in [listed, in_bits] {
            let mut map = form(0, 100, &[blocks(10, 10), blocks(50, 1)]);
            assert_eq!(map.take_low(20), Some(vec![blocks(20, 20)]));
            assert_eq!(map.take_low(60), Some(vec![blocks(0, 10), blocks(40, 10), blocks(51, 40)]));
            assert_eq!(map.take_low(10), None);
            assert_eq!(map.take_low(0), Some(vec![]));
            assert_eq!(map.count(), 9);
        }
    }

    #[test]
    fn metadata_goes_high() {
        for form in [listed, in_bits] {
            let mut map = form(0, 100, &[blocks(95, 2)]);
            assert_eq!(map.take_high(3), Some(blocks(97, 3)));
            assert_eq!(map.take_high(3), Some(blocks(92, 3)));
            assert_eq!(map.take_high(93), None);
            let mut map = form(0, 100, &[blocks(50, 10), blocks(62, 30)]);
            assert_eq!([1, 1, 1].map(|count| map.take_high(count)), [61, 60, 99].map(|first| Some(blocks(first, 1))));
        }
    }
}
