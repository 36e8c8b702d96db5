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
                    base.lies(name)
                        .map(|lies| without(lies, &changed(region, base, lies, &written)))
                        .unwrap_or_default()
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
    let row = region.row().filter(|row| row.len() as u64 >= TRACKED_BYTES_MIN)?;
    let start = row.as_ptr().addr();
    Some(start..start + row.len())
}

/// The blocks of `region` of which anything was `written`, ascending. Where the region does not begin with a page, each
/// written page reaches into a block that lies mostly in the next one: its hash says whether it is still as in `lies`.
fn changed(region: &Region, base: &Base, lies: &[Lies], written: &[Range<usize>]) -> Vec<Range<u64>> {
    let (start, row) = (region.begins_at(), region.row().unwrap_or_default());
    let is_as_saved = |block: usize| {
        let found = row.get(block * BLOCK..(block + 1) * BLOCK).map(hash);
        let index = lies.partition_point(|lies| lies.block + lies.count <= block as u64);
        let at = lies.get(index).and_then(|lies| Some(lies.at + (block as u64).checked_sub(lies.block)?));
        found.zip(at).is_some_and(|(found, at)| base.hashes(at..at + 1) == Some(&found[..]))
    };
    let blocks = written.iter().map(|range| {
        let (from, to) = (range.start.saturating_sub(start), range.end.saturating_sub(start).min(row.len()));
        let (mut first, mut end) = (from / BLOCK, to.div_ceil(BLOCK));
        first += usize::from(!from.is_multiple_of(BLOCK) && is_as_saved(first));
        end -= usize::from(!to.is_multiple_of(BLOCK) && first < end && is_as_saved(end - 1));
        first as u64..end as u64
    });
    blocks.filter(|blocks| !blocks.is_empty()).collect()
}

/// The stretches of `lies` that lie in none of the blocks `changed`; these ascend.
fn without(lies: &[Lies], changed: &[Range<u64>]) -> Vec<Lies> {
    let mut changed = changed.iter();
    let (mut clean, mut next) = (Vec::new(), changed.next());
    for lies in lies {
        let (mut block, end) = (lies.block, lies.block + lies.count);
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

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some with one")]
mod tests {
    use super::*;
    use crate::space::format::{Annex, HASH_BYTES, Manifest, Run};

    #[test]
    fn a_block_that_changed_is_not_clean() {
        let lies = [Lies { block: 0, at: 50, count: 4 }, Lies { block: 4, at: 20, count: 6 }];
        let clean = |changed: &[Range<u64>]| {
            let clean = without(&lies, changed);
            clean.iter().map(|lies| (lies.block, lies.at, lies.count)).collect::<Vec<_>>()
        };
        assert_eq!(clean(&[]), [(0, 50, 4), (4, 20, 6)]);
        assert_eq!(clean(&[0..1]), [(1, 51, 3), (4, 20, 6)]);
        assert_eq!(clean(&[0..2, 3..5]), [(2, 52, 1), (5, 21, 5)]);
        assert_eq!(clean(&[2..3, 2..3, 9..11]), [(0, 50, 2), (3, 53, 1), (4, 20, 5)]);
        assert_eq!(clean(&[0..11]), []);
    }

    #[test]
    fn what_reaches_into_a_block_from_the_next_page_counts_if_it_changed_anything() {
        let mut memory: Vec<u8> = (0..10 * BLOCK + 100).map(|at| (at / 7) as u8).collect();
        // SAFETY: the memory outlives the region.
        #[expect(unsafe_code, reason = "a region is memory")]
        let region = unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap();
        let rows = memory.chunks_exact(BLOCK).flat_map(hash).collect();
        let base = base_of(10, rows);
        let lies = [Lies { block: 0, at: 30, count: 10 }];
        let start = memory.as_mut_ptr().addr();
        let found = |written: &[Range<usize>]| {
            let written: Vec<_> = written.iter().map(|range| start + range.start..start + range.end).collect();
            changed(&region, &base, &lies, &written)
        };
        // As of a region 100 bytes behind the beginning of a page.
        let page = |number: usize| number * BLOCK - 100..(number + 1) * BLOCK - 100;
        assert_eq!(found(&[page(3)]), [], "nothing has changed");
        memory[3 * BLOCK + 5] ^= 1;
        assert_eq!(found(&[page(3)]), [3..4]);
        memory[3 * BLOCK - 50] ^= 1;
        assert_eq!(found(&[page(3)]), [2..4]);
        memory[3 * BLOCK + 5] ^= 1;
        assert_eq!(found(&[page(3), page(6)]), [2..3]);
        assert_eq!(found(&[page(4).start..page(6).end]), [4..6], "what lies in written pages as a whole is not read");
        // Blocks that were not saved, and the end of the region.
        assert_eq!(found(&[page(10).start..10 * BLOCK + 100]), [10..11]);
        assert_eq!(found(&[0..10 * BLOCK + 100]), [0..11]);
    }

    /// A revision with one item of so many blocks, from block 30 of the portion on.
    fn base_of(blocks: u64, rows: Vec<u8>) -> Base {
        let run = Run { first_block: 30, blocks, hashes_at: 0, hashes_hash: [0; HASH_BYTES] };
        Base::new(&Manifest { runs: vec![run], items: Vec::new(), annex: Annex::default() }, rows).unwrap()
    }
}
