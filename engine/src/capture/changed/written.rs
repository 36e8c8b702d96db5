//! What changed, by the pages that were written: nothing is read of a region whose pages the kernel tells.
//!
//! What must hold: pages count only as long as nobody has looked between the saving of the base and now; where they do
//! not, or cannot be told, hashes decide.

use super::{Base, Changes, Hashes, Lies, PageTracker};
use crate::{
    capture::Region,
    space::format::{BLOCK, BLOCK_BYTES, FoundBy, hash},
};
use std::{collections::HashMap, ops::Range};

/// Of smaller regions it costs less to hash them.
const TRACKED_BYTES_MIN: u64 = 16 * BLOCK_BYTES;

#[derive(Debug)]
pub(crate) struct Written {
    tracker: PageTracker,
    hashes: Hashes,
    /// Which region lay where when it was staged: by its first byte its name, and where it ended.
    lay: HashMap<usize, (usize, String)>,
    watched: Vec<Range<usize>>,
}

impl Written {
    /// An error says why the kernel does not tell pages here.
    pub(crate) fn new() -> Result<Written, String> {
        let tracker = PageTracker::new()?;
        Ok(Written { tracker, hashes: Hashes::default(), lay: HashMap::new(), watched: Vec::new() })
    }

    /// What of `region` was written since it was last asked; `None` if nobody can tell.
    fn written(&mut self, region: &Region) -> Option<Vec<Range<usize>>> {
        let range = range_of(region)?;
        if !self.watched.contains(&range) {
            self.tracker.watch(range.clone()).ok()?;
            self.watched.push(range.clone());
        }
        let mut written = Vec::new();
        let told = self.tracker.written(range.clone(), &mut written);
        if told.is_err() {
            self.watched.retain(|watched| *watched != range);
        }
        told.ok().map(|()| written)
    }

    /// Watches nothing any more where no region lies.
    fn leave(&mut self, regions: &[Region]) {
        let lie: Vec<Range<usize>> = regions.iter().filter_map(range_of).collect();
        let (stay, left): (Vec<_>, Vec<_>) = self.watched.drain(..).partition(|watched| lie.contains(watched));
        left.into_iter().for_each(|range| self.tracker.unwatch(range));
        self.watched = stay;
    }
}

impl Changes for Written {
    fn clean(&mut self, regions: &[Region], base: &Base, is_since: bool) -> Vec<Vec<Lies>> {
        self.leave(regions);
        // Several names of one memory are told once.
        let mut told = HashMap::new();
        let clean = |region: &Region| {
            let range = range_of(region);
            let written = range.map(|range| told.entry(range).or_insert_with(|| self.written(region)).clone());
            let lay = range_of(region).and_then(|range| {
                let (end, name) = self.lay.get(&range.start)?;
                (*end == range.end).then_some(name)
            });
            match (written.flatten(), lay) {
                (Some(written), Some(name)) if is_since => {
                    // What was saved from here, under whatever name.
                    let is_same = |lies: &[Lies], block| is_as_saved(region, base, lies, block);
                    let clean = |lies| without(lies, region, &written, |block| is_same(lies, block));
                    base.lies(name).map(clean).unwrap_or_default()
                }
                _ => self.hashes.clean_of(region, base),
            }
        };
        regions.iter().map(clean).collect()
    }

    fn look(&mut self, regions: &[Region]) {
        self.leave(regions);
        regions.iter().for_each(|region| drop(self.written(region)));
    }

    fn saved(&mut self, regions: &[Region]) {
        self.hashes.saved(regions);
        let lie = regions.iter().filter_map(|region| Some((range_of(region)?, region.description.name.clone())));
        self.lay = lie.map(|(range, name)| (range.start, (range.end, name))).collect();
    }

    fn found_by(&self) -> FoundBy {
        FoundBy::Pages
    }
}

/// Where a region lies, if its pages are worth asking for.
fn range_of(region: &Region) -> Option<Range<usize>> {
    let row = region.row().filter(|row| row.len() as u64 >= TRACKED_BYTES_MIN && !region.is_untracked())?;
    let start = row.as_ptr().addr();
    Some(start..start + row.len())
}

/// The stretches of `lies` that lie in no block of `region` of which anything was `written`; these ascend. A block that only
/// shares a page with what was written counts if `is_same` does not say that it is as it was.
fn without(lies: &[Lies], region: &Region, written: &[Range<usize>], is_same: impl Fn(u64) -> bool) -> Vec<Lies> {
    let (start, blocks) = (region.begins_at(), region.description.bytes / BLOCK_BYTES);
    let mut changed = written.iter().filter_map(|range| {
        let (from, to) = (range.start.saturating_sub(start), range.end.saturating_sub(start));
        let (mut first, mut end) = ((from / BLOCK) as u64, to.div_ceil(BLOCK) as u64);
        first += u64::from(!from.is_multiple_of(BLOCK) && is_same(first));
        end -= u64::from(end > first && !to.is_multiple_of(BLOCK) && is_same(end - 1));
        (first < end).then_some(first..end)
    });
    let (mut clean, mut next) = (Vec::new(), changed.next());
    for lies in lies {
        let (mut block, end) = (lies.block, (lies.block + lies.count).min(blocks));
        while block < end {
            match &next {
                Some(range) if range.end <= block => next = changed.next(),
                Some(range) if range.start <= block => block = range.end,
                other => {
                    let to = other.as_ref().map_or(end, |range| range.start.min(end));
                    clean.push(Lies { block, at: lies.at + (block - lies.block), count: to - block });
                    block = to;
                }
            }
        }
    }
    clean
}

/// Whether a block of `region` is as `base` has it, where its blocks lie.
fn is_as_saved(region: &Region, base: &Base, lies: &[Lies], block: u64) -> bool {
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
    use super::*;

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

    #[test]
    fn a_block_of_which_a_byte_was_written_is_not_clean() {
        let mut memory = vec![0_u8; 10 * BLOCK + 100];
        let start = memory.as_mut_ptr().addr();
        // SAFETY: the memory outlives the region, of which nothing is touched.
        #[expect(unsafe_code, reason = "a region is memory")]
        let region = unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap();
        let lies = [Lies { block: 0, at: 50, count: 4 }, Lies { block: 4, at: 20, count: 8 }];
        let clean = |written: &[Range<usize>]| {
            let written: Vec<_> = written.iter().map(|range| start + range.start..start + range.end).collect();
            let clean = without(&lies, &region, &written, |_| false);
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
        // Where no other byte of a block was written than those that share a page with it.
        let written = [BLOCK - 9..3 * BLOCK - 9, 5 * BLOCK + 1..5 * BLOCK + 9];
        let written: Vec<_> = written.map(|range| start + range.start..start + range.end).to_vec();
        let clean = without(&lies, &region, &written, |block| [0, 2, 5].contains(&block));
        let clean: Vec<_> = clean.iter().map(|lies| (lies.block, lies.at, lies.count)).collect();
        assert_eq!(clean, [(0, 50, 1), (2, 52, 2), (4, 20, 6)]);
    }
}
