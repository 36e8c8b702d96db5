//! The result of the search for changes in a region: its changed blocks, or its clean ones.

use super::{Base, BlockRun};
use crate::{capture::Region, space::format::BLOCK_BYTES};
use std::ops::Range;

#[derive(Debug)]
pub(crate) enum Found {
    /// These blocks changed since the region was saved as the item `name`; ascending stretches.
    Changed { name: String, blocks: Vec<Range<u64>> },
    /// These blocks are as saved, under any names; ascending stretches.
    Clean(Vec<BlockRun>),
}

impl Found {
    /// The whole blocks of `region` that are as in `base`, as ascending stretches.
    pub(crate) fn clean(&self, region: &Region, base: &Base) -> Vec<BlockRun> {
        match self {
            Found::Clean(lies) => lies.clone(),
            Found::Changed { name, blocks } => {
                without(base.lies(name).unwrap_or_default(), region.description.bytes / BLOCK_BYTES, blocks)
            }
        }
    }
}

/// The stretches of `lies` without the `changed` blocks of a region with this many `blocks`.
pub(super) fn without(lies: &[BlockRun], blocks: u64, changed: &[Range<u64>]) -> Vec<BlockRun> {
    let mut changed = changed.iter();
    let (mut clean, mut next) = (Vec::new(), changed.next());
    for lies in lies {
        let (mut block, end) = (lies.block, (lies.block + lies.count).min(blocks));
        while block < end {
            match next {
                Some(range) if range.end <= block => next = changed.next(),
                Some(range) if range.start <= block => block = range.end,
                other => {
                    let to = other.map_or(end, |range| range.start.min(end));
                    clean.push(BlockRun { block, at: lies.at + (block - lies.block), count: to - block });
                    block = to;
                }
            }
        }
    }
    clean
}
