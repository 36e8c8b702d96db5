//! The places of whole blocks of items in a portion.

use crate::space::{
    BlockSet,
    format::{BLOCK_BYTES, Extent, Item},
    free::Blocks,
};

/// Consecutive whole blocks of an item that are consecutive in the portion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRun {
    /// The number of the first block in the item.
    pub(crate) block: u64,
    /// The number of the first block in the portion; for blocks of zeros `ZEROS` plus `block`.
    pub(crate) at: u64,
    pub(crate) count: u64,
}

/// Base of the numbers of zero blocks, in place of blocks of the portion. No portion has this many.
pub(super) const ZEROS: u64 = Extent::ZEROS / BLOCK_BYTES;

impl BlockRun {
    /// `count` blocks of zeros, from `block` of the item on.
    pub(super) fn zeros(block: u64, count: u64) -> BlockRun {
        BlockRun { block, at: ZEROS + block, count }
    }

    pub(crate) fn are_zeros(&self) -> bool {
        self.at >= ZEROS
    }
}

/// The stretches among `lies` that are not zeros.
pub(super) fn stored(lies: &[BlockRun]) -> Vec<BlockRun> {
    lies.iter().filter(|lies| !lies.are_zeros()).copied().collect()
}

/// The whole blocks of an item that are whole blocks of the portion, or zeros.
pub(super) fn runs_of(item: &Item) -> Vec<BlockRun> {
    let (mut lies, mut offset) = (Vec::<BlockRun>::new(), 0_u64);
    for extent @ Extent { at, bytes } in &item.extents {
        let (from, to) = (offset.next_multiple_of(BLOCK_BYTES), (offset + bytes) / BLOCK_BYTES * BLOCK_BYTES);
        let at = at + (from - offset);
        if from < to && (at.is_multiple_of(BLOCK_BYTES) || extent.is_zeros()) {
            let (block, count) = (from / BLOCK_BYTES, (to - from) / BLOCK_BYTES);
            let next = match extent.is_zeros() {
                true => BlockRun::zeros(block, count),
                false => BlockRun { block, at: at / BLOCK_BYTES, count },
            };
            add(&mut lies, next);
        }
        offset += bytes;
    }
    lies
}

/// Adds a stretch; extends the last one if the new one continues it.
pub(super) fn add(all: &mut Vec<BlockRun>, next: BlockRun) {
    match all.last_mut() {
        Some(last) if last.block + last.count == next.block && last.at + last.count == next.at => {
            last.count += next.count;
        }
        _ => all.push(next),
    }
}

/// The places of these blocks, without zeros, and whether no two blocks have the same place.
pub(super) fn set_of(clean: &[Vec<BlockRun>]) -> (BlockSet, bool) {
    let stored = clean.iter().flatten().filter(|lies| !lies.are_zeros());
    BlockSet::of(stored.map(|lies| Blocks { first: lies.at, count: lies.count }))
}
