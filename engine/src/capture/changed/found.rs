//! What was found out about a region: what changed of it, or what did not.

use super::{Base, Lies};
use crate::{capture::Region, space::format::BLOCK_BYTES};
use std::ops::Range;

#[derive(Debug)]
pub(crate) enum Found {
    /// These blocks changed, stretches that ascend, since the region was saved as the item `name`.
    Changed { name: String, blocks: Vec<Range<u64>> },
    /// These are as they were saved, under whatever names; stretches that ascend.
    Clean(Vec<Lies>),
}

impl Found {
    /// The whole blocks of `region` that are as `base` has them, stretches that ascend.
    pub(crate) fn clean(&self, region: &Region, base: &Base) -> Vec<Lies> {
        match self {
            Found::Clean(lies) => lies.clone(),
            Found::Changed { name, blocks } => {
                without(base.lies(name).unwrap_or_default(), region.description.bytes / BLOCK_BYTES, blocks)
            }
        }
    }
}

/// The stretches of `lies` that are none of the `changed` blocks of a region that has so many `blocks`.
pub(super) fn without(lies: &[Lies], blocks: u64, changed: &[Range<u64>]) -> Vec<Lies> {
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
                    clean.push(Lies { block, at: lies.at + (block - lies.block), count: to - block });
                    block = to;
                }
            }
        }
    }
    clean
}
