//! Finds unchanged blocks in data that arrives only after t1, such as streams. Compares hashes block by block during
//! staging. Until all is staged, shared blocks have numbers beyond the log.
//!
//! Invariant: a block is shared only if its hash equals that of the block at its place in the item of its name, or if
//! the plan of a region declares it unchanged. Each block of the older revision is shared at most once.

use super::{Base, BlockRun, block_runs::set_of, region_plan::runs};
use crate::{
    capture::{Contents, contents::extend},
    space::format::{BLOCK, BLOCK_BYTES, Extent, Item, Run, hash},
};
use std::sync::Arc;

/// The number in the log at which the older revision's portion begins during staging. No log is this long.
const OLDER: u64 = 1 << 62;

/// The shared blocks of a shard so far.
#[derive(Debug)]
pub(crate) struct StreamDeduplicator {
    /// The default base if there is no older revision; zeros are found all the same.
    base: Arc<Base>,
    /// For each block of the base, whether it is shared.
    taken: Vec<bool>,
}

impl StreamDeduplicator {
    pub(crate) fn new(base: Arc<Base>) -> StreamDeduplicator {
        StreamDeduplicator { taken: vec![false; base.blocks() as usize], base }
    }

    /// The place of block number `block` of the item `name` with these `bytes`, if it need not be staged; `None` if it
    /// changed.
    pub(crate) fn find(&mut self, name: &str, block: u64, bytes: &[u8]) -> Option<u64> {
        if bytes == [0; BLOCK] {
            return Some(Extent::ZEROS);
        }
        let lies = self.base.lies(name)?;
        let index = lies.partition_point(|lies| lies.block + lies.count <= block);
        let lies = lies.get(index).filter(|lies| lies.block <= block && !lies.are_zeros())?;
        let at = lies.at + (block - lies.block);
        let is_same = self.base.hash_at(at)? == &hash(bytes)[..];
        if is_same { self.take(at, 1) } else { None }
    }

    /// The place of `count` blocks of the older revision, from `at` on; `None` if one of them is already shared.
    pub(crate) fn take(&mut self, at: u64, count: u64) -> Option<u64> {
        let numbers = (at..at + count).map(|block| self.base.number(block).map(|number| number as usize));
        let numbers = numbers.collect::<Option<Vec<usize>>>()?;
        if numbers.iter().any(|number| self.taken[*number]) {
            return None;
        }
        numbers.into_iter().for_each(|number| self.taken[number] = true);
        Some(OLDER + at * BLOCK_BYTES)
    }

    /// The same contents with the shared blocks numbered behind the log, as an allocation has them, and their runs;
    /// `None` if the older revision lacks one.
    pub(crate) fn settle(&self, contents: Contents) -> Option<(Contents, Vec<Run>)> {
        let older = |extent: &&Extent| extent.at >= OLDER && !extent.is_zeros();
        let mut delta: Vec<(u64, u64)> =
            contents.items.iter().flat_map(|item| &item.extents).filter(older).map(blocks_of).collect();
        delta.sort_unstable();
        let mut stretches = Vec::<BlockRun>::new();
        for (first, end) in delta {
            // Pieces that overwrote it later may leave several parts of a block.
            match stretches.last_mut() {
                Some(last) if first <= last.at + last.count => last.count = last.count.max(end - last.at),
                _ => stretches.push(BlockRun { block: 0, at: first, count: end - first }),
            }
        }
        let (shared, numbers) = runs(set_of(&[stretches]).0, &self.base)?;
        let is_taken = |block: u64| self.base.number(block).is_some_and(|number| self.taken[number as usize]);
        let blocks_of_shared = || shared.iter().flat_map(|run| run.first_block..run.stretch().end());
        debug_assert!(blocks_of_shared().all(is_taken), "a block is shared that was not compared");
        let own = contents.blocks;
        let place = |extent: &Extent| -> Option<u64> {
            match Some(extent).filter(older) {
                None => Some(extent.at),
                Some(Extent { at, .. }) => {
                    let number = numbers.of_block((at - OLDER) / BLOCK_BYTES)?;
                    Some((own + number) * BLOCK_BYTES + at % BLOCK_BYTES)
                }
            }
        };
        let items = contents.items.iter().map(|item| {
            let mut extents = Vec::with_capacity(item.extents.len());
            for extent in &item.extents {
                extend(&mut extents, place(extent)?, extent.bytes);
            }
            Some(Item { extents, ..item.clone() })
        });
        let items = items.collect::<Option<_>>()?;
        let blocks: u64 = shared.iter().map(|run| run.blocks).sum();
        let delta_of = if blocks > 0 { own..own + blocks } else { 0..0 };
        Some((Contents { items, shared: delta_of, ..contents }, shared))
    }
}

/// The blocks of the portion touched by a stretch beyond the log: the first, and the one behind the last.
fn blocks_of(extent: &Extent) -> (u64, u64) {
    let at = extent.at - OLDER;
    (at / BLOCK_BYTES, (at + extent.bytes).div_ceil(BLOCK_BYTES))
}
