//! What changed, by the hashes of blocks: needs nothing of the system, and reads all that is protected.

use super::{Base, Changes, Found, Lies, lies::add};
use crate::{
    capture::Region,
    error::Result,
    space::format::{BLOCK, BLOCK_BYTES, FoundBy, hash},
};
use std::{collections::HashMap, ops::Range};

/// Rows that lie apart are brought together in parts of so many blocks.
const PART_BLOCKS: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct ByHashes {
    /// Which region lay where when it was staged. No more than a hint: the hashes decide.
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

/// An error, which names it, if a region has blocks that are not as `base` has them, though the pages said them to be `clean`.
/// `found`: who said so of each region; what was hashed is not looked at once more.
pub(crate) fn audit(regions: &[Region], base: &Base, found: &[Found], clean: &[Vec<Lies>]) -> Result<()> {
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
                "{changed} of its blocks changed, and the pages do not tell so: something writes there past the page tables \
                 of this process, such as a device; untrack it, or set track = hashes"
            )));
        }
    }
    Ok(())
}

impl ByHashes {
    /// Compares each block of `region` with the same block of what was saved under its name, and of what was saved from
    /// its address: programs swap pointers.
    pub(super) fn clean_of(&self, region: &Region, base: &Base) -> Vec<Lies> {
        let name = &region.description.name;
        let here = self.lay.get(&region.begins_at()).filter(|other| *other != name);
        let saved = [here, Some(name)].into_iter().flatten().filter_map(|name| base.lies(name));
        let mut saved: Vec<(&[Lies], usize)> = saved.map(|lies| (lies, 0)).collect();
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
                add(&mut clean, Lies { block, at, count: 1 });
            }
        });
        clean
    }
}

/// Gives `each` these whole blocks of a region, with their numbers.
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

/// Whether a block is zeros. Of one that is not, the first word tells nearly always.
pub(super) fn is_zeros(block: &[u8]) -> bool {
    block[..8] == [0; 8] && block == [0; BLOCK]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Regions;

    /// Its blocks are hashed each time, and others may write to it between the two looks.
    #[test]
    fn only_what_the_pages_have_told_is_audited() {
        let mut memory = vec![1_u8; 64 * BLOCK];
        let mut regions = Regions::default();
        // SAFETY: the memory outlives the region.
        #[expect(unsafe_code, reason = "a region is memory")]
        regions.add(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
        // Nothing has this block.
        let clean = [vec![Lies { block: 0, at: 5, count: 1 }]];
        let by_pages = Found::Changed { name: "x".to_owned(), blocks: Vec::new() };
        audit(regions.all(), &Base::default(), &[by_pages], &clean).unwrap_err();
        audit(regions.all(), &Base::default(), &[Found::Clean(clean[0].clone())], &clean).unwrap();
    }
}
