//! The map of free blocks, computed from what the slots refer to and never stored.

pub(crate) use super::blocks::Blocks;

use super::block_set::{self, BlockSet};

/// Unites stretches: the same blocks in stretches that ascend and do not touch.
pub(crate) fn united(mut blocks: Vec<Blocks>) -> Vec<Blocks> {
    blocks.retain(|blocks| blocks.count > 0);
    if block_set::pays(blocks.len(), block_set::range_of(&blocks)) {
        return BlockSet::of(&blocks).0.stretches().collect();
    }
    blocks.sort();
    let mut united: Vec<Blocks> = Vec::with_capacity(blocks.len());
    for next in blocks {
        match united.last_mut() {
            Some(last) if next.first <= last.end() => last.count = last.count.max(next.end() - last.first),
            _ => united.push(next),
        }
    }
    united
}

/// Whether `blocks` are all among `united`, which `united` made.
pub(crate) fn is_among(united: &[Blocks], blocks: Blocks) -> bool {
    let behind = united.partition_point(|stretch| stretch.first <= blocks.first);
    let end = blocks.first.checked_add(blocks.count);
    behind.checked_sub(1).is_some_and(|index| end.is_some_and(|end| end <= united[index].end()))
}

/// Free stretches, ascending, never empty, never touching.
#[derive(Debug, Clone)]
pub(crate) struct FreeMap {
    stretches: Vec<Blocks>,
}

impl FreeMap {
    /// The map of the blocks in `from..to` that are not in `used`.
    pub(crate) fn new(from: u64, to: u64, used: impl IntoIterator<Item = Blocks>) -> FreeMap {
        FreeMap::between(from, to, united(used.into_iter().collect()))
    }

    /// The same, where what is used ascends.
    pub(crate) fn between(from: u64, to: u64, used: impl IntoIterator<Item = Blocks>) -> FreeMap {
        let (mut stretches, mut next) = (Vec::new(), from);
        for blocks in used {
            if blocks.first > next {
                stretches.push(Blocks { first: next, count: blocks.first - next });
            }
            next = next.max(blocks.end());
        }
        if next < to {
            stretches.push(Blocks { first: next, count: to - next });
        }
        FreeMap { stretches }
    }

    /// Whether all of `blocks` are free.
    pub(crate) fn has(&self, blocks: Blocks) -> bool {
        let behind = self.stretches.partition_point(|stretch| stretch.first <= blocks.first);
        let stretch = behind.checked_sub(1).map(|index| self.stretches[index]);
        let end = blocks.first.checked_add(blocks.count);
        stretch.is_some_and(|stretch| end.is_some_and(|end| end <= stretch.end()))
    }

    pub(crate) fn count(&self) -> u64 {
        self.stretches.iter().map(|s| s.count).sum()
    }

    /// Takes the blocks `used` out of the map, some of which may be taken already.
    pub(crate) fn cut(&mut self, used: Blocks) {
        let first = self.stretches.partition_point(|stretch| stretch.end() <= used.first);
        let end = self.stretches.partition_point(|stretch| stretch.first < used.end());
        if used.count == 0 || first >= end {
            return;
        }
        let (begins, ends) = (self.stretches[first].first, self.stretches[end - 1].end());
        let before = Blocks { first: begins, count: used.first.saturating_sub(begins) };
        let behind = Blocks { first: used.end(), count: ends.saturating_sub(used.end()) };
        self.stretches.splice(first..end, [before, behind].into_iter().filter(|left| left.count > 0));
    }

    /// Takes `count` blocks in one stretch from the high end, where the small things go: out of the shortest that is
    /// long enough, so that long ones stay whole.
    pub(crate) fn take_high(&mut self, count: u64) -> Option<Blocks> {
        let long = self.stretches.iter_mut().enumerate().rev().filter(|(_, s)| s.count >= count);
        let (index, stretch) = long.min_by_key(|(_, s)| s.count)?;
        stretch.count -= count;
        let taken = Blocks { first: stretch.end(), count };
        if stretch.count == 0 {
            self.stretches.remove(index);
        }
        Some(taken)
    }

    /// Takes `count` blocks from the low end: one stretch if there is one, else several, ascending.
    pub(crate) fn take_low(&mut self, count: u64) -> Option<Vec<Blocks>> {
        if count == 0 || self.count() < count {
            return (count == 0).then(Vec::new);
        }
        let (mut taken, mut missing) = (Vec::new(), count);
        let whole = self.stretches.iter().position(|s| s.count >= count);
        for stretch in &mut self.stretches[whole.unwrap_or(0)..] {
            let part = Blocks { first: stretch.first, count: stretch.count.min(missing) };
            (stretch.first, stretch.count) = (part.end(), stretch.count - part.count);
            missing -= part.count;
            taken.push(part);
            if missing == 0 {
                break;
            }
        }
        self.stretches.retain(|s| s.count > 0);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(first: u64, count: u64) -> Blocks {
        Blocks { first, count }
    }

    #[test]
    fn free_is_what_nobody_uses() {
        let map = FreeMap::new(32, 100, [blocks(40, 10), blocks(32, 2), blocks(45, 10), blocks(90, 10)]);
        assert_eq!(map.stretches, [blocks(34, 6), blocks(55, 35)]);
        assert_eq!(map.count(), 41);
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

    #[test]
    fn what_is_cut_out_is_not_free() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let mut some = || blocks(random.u64(0..100), random.u64(1..20));
            let used: Vec<Blocks> = (0..6).map(|_| some()).collect();
            let mut map = FreeMap::new(10, 130, used[..3].iter().copied());
            used[3..].iter().for_each(|used| map.cut(*used));
            let together = FreeMap::new(10, 130, used.iter().copied());
            assert_eq!(united(map.stretches.clone()), together.stretches, "{used:?}");
            assert!(map.stretches.iter().all(|stretch| stretch.count > 0), "{map:?}");
        }
    }

    #[test]
    fn data_goes_low_in_one_stretch_where_it_can() {
        let mut map = FreeMap::new(0, 100, [blocks(10, 10), blocks(50, 1)]);
        assert_eq!(map.take_low(20), Some(vec![blocks(20, 20)]));
        assert_eq!(map.take_low(60), Some(vec![blocks(0, 10), blocks(40, 10), blocks(51, 40)]));
        assert_eq!(map.take_low(10), None);
        assert_eq!(map.take_low(0), Some(vec![]));
        assert_eq!(map.count(), 9);
    }

    #[test]
    fn metadata_goes_high() {
        let mut map = FreeMap::new(0, 100, [blocks(95, 2)]);
        assert_eq!(map.take_high(3), Some(blocks(97, 3)));
        assert_eq!(map.take_high(3), Some(blocks(92, 3)));
        assert_eq!(map.take_high(93), None);
        let mut map = FreeMap::new(0, 100, [blocks(50, 10), blocks(62, 30)]);
        assert_eq!([1, 1, 1].map(|count| map.take_high(count)), [61, 60, 99].map(|first| Some(blocks(first, 1))));
    }
}
