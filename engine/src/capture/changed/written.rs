//! Finds changes by the written pages: a region is not read if the kernel tracks its pages.
//!
//! Invariant: pages count only if no other search took place between the saving of the base and now. If they do not
//! count, or cannot be tracked, hashes decide.

use super::{Base, BlockRun, ByHashes, Changes, Found, PageTracker, WrittenOf, watched::range_of};
use crate::{
    capture::Region,
    space::format::{BLOCK, FoundBy, hash},
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

#[derive(Debug)]
pub(crate) struct Written {
    tracker: PageTracker,
    hashes: ByHashes,
    /// The regions as staged: by first byte, their end and name.
    lay: HashMap<usize, (usize, String)>,
    watched: HashSet<Range<usize>>,
    /// Writes found between two checkpoints, by watched range, because an unwatched region may begin at the same byte.
    /// Ascending.
    between: HashMap<Range<usize>, Vec<Range<usize>>>,
    /// Writes that were found but not yet returned by `take_written`.
    unreported: Vec<WrittenOf>,
}

impl Written {
    /// An error says why the kernel cannot track pages here.
    pub(crate) fn new() -> Result<Written, String> {
        let tracker = PageTracker::new()?;
        let (hashes, lay, watched, between, unreported) = Default::default();
        Ok(Written { tracker, hashes, lay, watched, between, unreported })
    }

    /// The parts of `region` that were written since the last search of a checkpoint; `None` if this is not known.
    fn written(&mut self, region: &Region) -> Option<Vec<Range<usize>>> {
        let range = range_of(region)?;
        let is_tracked = self.look_at(&range);
        let written = self.between.remove(&range).unwrap_or_default();
        is_tracked.then_some(written)
    }

    /// Watches those of `ranges` that can be watched, from now on.
    fn watch(&mut self, ranges: impl Iterator<Item = Range<usize>>) {
        let new: Vec<Range<usize>> = ranges.filter(|range| !self.watched.contains(range)).collect();
        self.watched.extend(self.tracker.watch_all(new));
    }

    /// Finds the parts of `range` that were written since the last search; `false` if this is not known.
    fn look_at(&mut self, range: &Range<usize>) -> bool {
        let mut written = Vec::new();
        let is_tracked = self.watched.contains(range) && self.tracker.written(range.clone(), &mut written).is_ok();
        if is_tracked {
            unite(self.between.entry(range.clone()).or_default(), &written);
        } else {
            self.watched.remove(range);
            self.between.remove(range);
            written = vec![range.clone()];
        }
        if !written.is_empty() {
            self.unreported.push(WrittenOf { watched: range.clone(), written });
        }
        is_tracked
    }

    /// Stops watching ranges without a region. All of them count as written, because they are not searched again.
    fn leave(&mut self, regions: &[Region]) {
        let lie: HashSet<Range<usize>> = regions.iter().filter_map(range_of).collect();
        let (stay, left): (HashSet<_>, HashSet<_>) = self.watched.drain().partition(|watched| lie.contains(watched));
        for range in left {
            self.between.remove(&range);
            self.unreported.push(WrittenOf { watched: range.clone(), written: vec![range.clone()] });
            self.tracker.unwatch(range);
        }
        self.watched = stay;
    }
}

impl Changes for Written {
    fn find(&mut self, regions: &[Region], base: &Base, is_since: bool) -> Vec<Found> {
        self.leave(regions);
        self.watch(regions.iter().filter_map(range_of));
        // Several names of one memory are searched once.
        let mut by_range = HashMap::new();
        let find = |region: &Region| {
            let range = range_of(region);
            let written = range.map(|range| by_range.entry(range).or_insert_with(|| self.written(region)).clone());
            let lay = range_of(region).and_then(|range| {
                let (end, name) = self.lay.get(&range.start)?;
                (*end == range.end).then_some(name)
            });
            match (written.flatten(), lay) {
                (Some(written), Some(name)) if is_since => {
                    // The base may have saved this memory under another name.
                    let lies = base.lies(name).unwrap_or_default();
                    let blocks = blocks_of(region, &written, |block| is_as_saved(region, base, lies, block));
                    Found::Changed { name: name.clone(), blocks }
                }
                _ => Found::Clean(self.hashes.clean_of(region, base)),
            }
        };
        regions.iter().map(find).collect()
    }

    fn look(&mut self, regions: &[Region]) {
        self.leave(regions);
        self.watch(regions.iter().filter_map(range_of));
        regions.iter().for_each(|region| drop(self.written(region)));
    }

    fn tick(&mut self, regions: Option<&[Region]>) {
        let mut ranges: Vec<Range<usize>> = match regions {
            Some(regions) => {
                self.leave(regions);
                self.watch(regions.iter().filter_map(range_of));
                regions.iter().filter_map(range_of).collect()
            }
            None => self.watched.iter().cloned().collect(),
        };
        // Several names of one memory are searched once.
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup();
        for range in &ranges {
            self.look_at(range);
        }
    }

    fn tick_at(&mut self, region: &Region) {
        if let Some(range) = range_of(region) {
            self.watch(std::iter::once(range.clone()));
            self.look_at(&range);
        }
    }

    fn take_written(&mut self) -> Vec<WrittenOf> {
        std::mem::take(&mut self.unreported)
    }

    fn saved(&mut self, regions: &[Region]) {
        // Without searches between checkpoints, `take_written` is never called.
        self.unreported.clear();
        self.hashes.saved(regions);
        let lie = regions.iter().filter_map(|region| Some((range_of(region)?, region.description.name.clone())));
        self.lay = lie.map(|(range, name)| (range.start, (range.end, name))).collect();
    }

    fn found_by(&self) -> FoundBy {
        FoundBy::Pages
    }
}

/// Adds `more` to `ranges`; both ascend, and so does the result.
fn unite(ranges: &mut Vec<Range<usize>>, more: &[Range<usize>]) {
    if ranges.is_empty() {
        ranges.extend_from_slice(more);
        return;
    }
    let (mut one, mut other) = (std::mem::take(ranges).into_iter().peekable(), more.iter().cloned().peekable());
    loop {
        let next = match (one.peek(), other.peek()) {
            (Some(first), Some(second)) if second.start < first.start => other.next(),
            (None, _) => other.next(),
            (Some(_), _) => one.next(),
        };
        let Some(next) = next else { return };
        match ranges.last_mut() {
            Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
            _ => ranges.push(next),
        }
    }
}

/// The blocks of `region` with a `written` byte, as ascending stretches; `written` ascends too. A block that only
/// shares a page with written bytes does not count if `is_same` says that it is unchanged.
fn blocks_of(region: &Region, written: &[Range<usize>], is_same: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
    let start = region.begins_at();
    let changed = written.iter().filter_map(|range| {
        let (from, to) = (range.start.saturating_sub(start), range.end.saturating_sub(start));
        let (mut first, mut end) = ((from / BLOCK) as u64, to.div_ceil(BLOCK) as u64);
        first += u64::from(!from.is_multiple_of(BLOCK) && is_same(first));
        end -= u64::from(end > first && !to.is_multiple_of(BLOCK) && is_same(end - 1));
        (first < end).then_some(first..end)
    });
    changed.collect()
}

/// Whether a block of `region` is as `base` has it. `lies`: the places of its blocks.
fn is_as_saved(region: &Region, base: &Base, lies: &[BlockRun], block: u64) -> bool {
    let index = lies.partition_point(|lies| lies.block + lies.count <= block);
    let lies = lies.get(index).filter(|lies| lies.block <= block);
    let saved = lies.and_then(|lies| base.hash_at(lies.at + (block - lies.block)));
    let from = block as usize * BLOCK;
    let now = region.row().and_then(|row| row.get(from..from + BLOCK));
    now.is_some_and(|now| saved == Some(&hash(now)[..]))
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some with one")]
mod tests {
    use super::{
        super::{found::without, watched::TRACKED_BYTES_MIN},
        *,
    };
    use crate::capture::tests::memory::TestPages;

    #[test]
    fn pages_are_not_asked_of_what_is_untracked_wherever_it_moves() {
        let mut memory = vec![0_u8; 2 * TRACKED_BYTES_MIN as usize];
        let (address, half) = (memory.as_mut_ptr(), TRACKED_BYTES_MIN);
        let mut regions = crate::capture::Regions::default();
        // SAFETY: the memory outlives the regions, of which nothing is touched.
        #[expect(unsafe_code, reason = "a region is memory")]
        let region = |at: u64| unsafe { Region::new("x", address.wrapping_add(at as usize), half) }.unwrap();
        regions.add(region(0)).unwrap();
        assert!(range_of(&regions.all()[0]).is_some());
        regions.untrack("x").unwrap();
        assert!(range_of(&regions.all()[0]).is_none());
        regions.replace(region(half)).unwrap();
        #[expect(unsafe_code, reason = "a region is memory")]
        // SAFETY: as above.
        unsafe { regions.move_to("x", address, None) }.unwrap();
        assert!(range_of(&regions.all()[0]).is_none());
        regions.untrack("y").unwrap_err();
        regions.remove("x").unwrap();
        regions.add(region(0)).unwrap();
        assert!(range_of(&regions.all()[0]).is_some());
    }

    /// Story: a region could not be watched because another began at the same byte. The writes found for the other were
    /// then forgotten, and the page was shared in its old state.
    #[test]
    fn what_was_written_between_two_checkpoints_stays_told_whatever_else_begins_there() {
        let memory = TestPages::new(64);
        memory.write_each(0..64);
        #[expect(unsafe_code, reason = "a region is memory")]
        let region = |name: &str, page: usize, pages: u64| {
            let address = std::ptr::with_exposed_provenance_mut(memory.range().start + page * BLOCK);
            // SAFETY: the memory outlives the regions, of which nothing is touched.
            unsafe { Region::new(name, address, pages * BLOCK as u64) }.unwrap()
        };
        let (x, apart, within) = (region("x", 0, 32), region("y", 40, 16), region("y", 0, 16));
        let mut written = Written::new().expect("this machine tracks pages");
        let regions = [apart, x.clone()];
        written.look(&regions);
        written.saved(&regions);
        memory.write(20);
        written.tick(Some(&regions));
        let found = written.find(&[within, x], &Base::default(), true);
        assert!(matches!(&found[1], Found::Changed { blocks, .. } if *blocks == [20..21]), "{found:?}");
    }

    #[test]
    fn a_block_of_which_a_byte_was_written_is_not_clean() {
        let mut memory = vec![0_u8; 10 * BLOCK + 100];
        let start = memory.as_mut_ptr().addr();
        // SAFETY: the memory outlives the region, of which nothing is touched.
        #[expect(unsafe_code, reason = "a region is memory")]
        let region = unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap();
        let lies = [BlockRun { block: 0, at: 50, count: 4 }, BlockRun { block: 4, at: 20, count: 8 }];
        let clean = |written: &[Range<usize>]| {
            let written: Vec<_> = written.iter().map(|range| start + range.start..start + range.end).collect();
            let clean = without(&lies, 10, &blocks_of(&region, &written, |_| false));
            clean.iter().map(|lies| (lies.block, lies.at, lies.count)).collect::<Vec<_>>()
        };
        assert_eq!(clean(&[]), [(0, 50, 4), (4, 20, 6)]);
        assert_eq!(clean(&[0..1]), [(1, 51, 3), (4, 20, 6)]);
        assert_eq!(clean(&[BLOCK - 1..BLOCK + 1, 3 * BLOCK..5 * BLOCK]), [(2, 52, 1), (5, 21, 5)]);
        assert_eq!(
            clean(&[2 * BLOCK + 5..2 * BLOCK + 6, 9 * BLOCK..10 * BLOCK + 100]),
            [(0, 50, 2), (3, 53, 1), (4, 20, 5)]
        );
        assert_eq!(clean(&[0..10 * BLOCK + 100]), []);
        // A block is clean if only other bytes of its page were written.
        let written = [BLOCK - 9..3 * BLOCK - 9, 5 * BLOCK + 1..5 * BLOCK + 9];
        let written: Vec<_> = written.map(|range| start + range.start..start + range.end).to_vec();
        let clean = without(&lies, 10, &blocks_of(&region, &written, |block| [0, 2, 5].contains(&block)));
        let clean: Vec<_> = clean.iter().map(|lies| (lies.block, lies.at, lies.count)).collect();
        assert_eq!(clean, [(0, 50, 1), (2, 52, 2), (4, 20, 6)]);
    }

    #[test]
    fn what_was_told_twice_is_told_once() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut some = || {
                let (mut at, mut ranges) = (0, Vec::new());
                for _ in 0..random.usize(0..8) {
                    let from = at + random.usize(0..5);
                    at = from + random.usize(1..6);
                    ranges.push(from..at);
                    at += 1;
                }
                ranges
            };
            let (mut one, other) = (some(), some());
            let inside = |ranges: &[Range<usize>]| -> Vec<bool> {
                (0..100).map(|at| ranges.iter().any(|range| range.contains(&at))).collect()
            };
            let both: Vec<bool> =
                inside(&one).into_iter().zip(inside(&other)).map(|(one, other)| one || other).collect();
            unite(&mut one, &other);
            assert_eq!(inside(&one), both, "seed {seed}");
            assert!(one.windows(2).all(|pair| pair[0].end < pair[1].start), "seed {seed}: {one:?}");
        }
    }
}
