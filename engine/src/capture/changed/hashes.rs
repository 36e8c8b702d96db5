//! Finds changes by the hashes of blocks. Needs no help from the system, but reads all protected memory.

use super::{Base, BlockRun, Changes, Found, block_runs::add};
use crate::{
    capture::Region,
    error::Result,
    space::format::{BLOCK, BLOCK_BYTES, FoundBy, hash},
};
use std::{collections::HashMap, ops::Range};

/// Blocks in gapped rows are gathered in parts of this many blocks.
const PART_BLOCKS: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct ByHashes {
    /// The name of the region at each address when it was staged. Only a hint: the hashes decide.
    lay: HashMap<usize, String>,
}

impl Changes for ByHashes {
    fn find(&mut self, regions: &[Region], base: &Base, _is_since: bool) -> Vec<Found> {
        regions.iter().map(|region| Found::Clean(self.clean_of(region, base))).collect()
    }

    fn saved(&mut self, regions: &[Region]) {
        self.lay = regions.iter().map(|region| (region.begins_at(), region.description.name.clone())).collect();
    }

    fn found_by(&self) -> FoundBy {
        FoundBy::Hashes
    }
}

/// An error that names a region with blocks that differ from `base`, although its pages were reported `clean`. `found`:
/// the source of that report for each region; regions that were hashed are not hashed again.
pub(crate) fn audit(regions: &[Region], base: &Base, found: &[Found], clean: &[Vec<BlockRun>]) -> Result<()> {
    let of_pages = |found: &Found| matches!(found, Found::Changed { .. });
    for ((region, clean), _) in regions.iter().zip(clean).zip(found).filter(|(_, found)| of_pages(found)) {
        let (mut lies, mut changed) = (clean.iter().peekable(), 0_u64);
        each_block(region, 0..region.description.bytes / BLOCK_BYTES, |block, bytes| {
            while lies.next_if(|lies| lies.block + lies.count <= block).is_some() {}
            if let Some(lies) = lies.peek().filter(|lies| lies.block <= block) {
                let at = lies.at + (block - lies.block);
                changed += u64::from(base.hash_at(at) != Some(&hash(bytes)[..]));
            }
        });
        if changed > 0 {
            return Err(region.refused(format!(
                "{changed} of its blocks changed, unseen by their pages: something writes there past the page tables \
                 of this process, such as a device; untrack it, or set track = hashes"
            )));
        }
    }
    Ok(())
}

impl ByHashes {
    /// Compares each block of `region` with the saved block of its name, and with the one saved from its address:
    /// programs swap pointers.
    pub(super) fn clean_of(&self, region: &Region, base: &Base) -> Vec<BlockRun> {
        let name = &region.description.name;
        let here = self.lay.get(&region.begins_at()).filter(|other| *other != name);
        let saved = [here, Some(name)].into_iter().flatten().filter_map(|name| base.lies(name));
        let mut saved: Vec<(&[BlockRun], usize)> = saved.map(|lies| (lies, 0)).collect();
        let mut clean = Vec::new();
        if saved.is_empty() {
            return clean;
        }
        each_block(region, 0..region.description.bytes / BLOCK_BYTES, |block, bytes| {
            let found = hash(bytes);
            let at = saved.iter_mut().find_map(|(lies, next)| {
                while lies.get(*next).is_some_and(|lies| lies.block + lies.count <= block) {
                    *next += 1;
                }
                let lies = lies.get(*next).filter(|lies| lies.block <= block)?;
                let at = lies.at + (block - lies.block);
                (base.hash_at(at)? == &found[..]).then_some(at)
            });
            if let Some(at) = at {
                add(&mut clean, BlockRun { block, at, count: 1 });
            }
        });
        clean
    }
}

/// Calls `each` with these whole blocks of a region and their numbers.
pub(super) fn each_block(region: &Region, blocks: Range<u64>, mut each: impl FnMut(u64, &[u8])) {
    if let Some(row) = region.row() {
        let row = &row[blocks.start as usize * BLOCK..blocks.end as usize * BLOCK];
        (blocks.start..).zip(row.chunks_exact(BLOCK)).for_each(|(block, bytes)| each(block, bytes));
        return;
    }
    let mut part = vec![0; (PART_BLOCKS.min(blocks.end - blocks.start) * BLOCK_BYTES) as usize];
    for first in blocks.clone().step_by(PART_BLOCKS as usize) {
        let part = &mut part[..(PART_BLOCKS.min(blocks.end - first) * BLOCK_BYTES) as usize];
        region.copy_out(first * BLOCK_BYTES, part);
        (first..).zip(part.chunks_exact(BLOCK)).for_each(|(block, bytes)| each(block, bytes));
    }
}

/// Whether a block is zeros. The first word nearly always shows that it is not.
pub(super) fn is_zeros(block: &[u8]) -> bool {
    block[..8] == [0; 8] && block == [0; BLOCK]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Regions;

    /// The blocks of other regions are hashed each time, and other threads may write to them between the two
    /// comparisons.
    #[test]
    fn only_what_the_pages_have_told_is_audited() {
        let mut memory = vec![1_u8; 64 * BLOCK];
        let mut regions = Regions::default();
        // SAFETY: the memory outlives the region.
        #[expect(unsafe_code, reason = "a region is memory")]
        regions.add(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
        // No base has this block.
        let clean = [vec![BlockRun { block: 0, at: 5, count: 1 }]];
        let by_pages = Found::Changed { name: "x".to_owned(), blocks: Vec::new() };
        audit(regions.all(), &Base::default(), &[by_pages], &clean).unwrap_err();
        audit(regions.all(), &Base::default(), &[Found::Clean(clean[0].clone())], &clean).unwrap();
    }
}
