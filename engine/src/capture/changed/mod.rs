//! Finds the changes since an older revision in the same portion. Only changes are staged; all other blocks are shared
//! with that revision. Changes are found in two ways: by `hashes` of blocks, and by the `written` pages, which `pages`
//! gets from the kernel.
//!
//! Invariant: a block is clean if it has not changed since *this address* was saved, under any name. If this is
//! uncertain, the block counts as changed.

mod base;
mod block_runs;
mod delta;
mod filling;
mod found;
mod hashes;
mod index;
mod late;
mod limit_parts;
mod outline;
mod pages;
mod region_plan;
mod speculative;
mod vacate;
mod watched;
mod written;

pub(crate) use base::Base;
pub(crate) use block_runs::BlockRun;
pub(crate) use delta::{Delta, differing, differing_or_sparse};
pub(crate) use found::Found;
pub(crate) use hashes::{ByHashes, audit};
pub(crate) use late::StreamDeduplicator;
pub(crate) use pages::PageTracker;
pub(crate) use region_plan::{OWN_RUNS_MAX, Part, PartPlace, Plan, size_elsewhere, size_of_delta};
pub(crate) use speculative::SpeculativeBlocks;
pub(crate) use written::Written;

use super::Region;
use crate::space::format::FoundBy;
use std::{fmt::Debug, ops::Range};

/// The written parts of watched memory, as addresses; all of it if this is uncertain.
#[derive(Debug)]
pub(crate) struct WrittenOf {
    pub(crate) watched: Range<usize>,
    pub(crate) written: Vec<Range<usize>>,
}

/// A way to find changes.
pub(crate) trait Changes: Debug + Send {
    /// The whole blocks of each region that are as in `base`; all others may have changed. `is_since`: `base` was saved
    /// last, and no search took place since.
    fn find(&mut self, regions: &[Region], base: &Base, is_since: bool) -> Vec<Found>;

    /// Searches without a base to compare with.
    fn look(&mut self, _regions: &[Region]) {}

    /// Searches between two checkpoints: these regions, or the last searched ones. The result also counts for the next
    /// `find`. Does nothing if only a comparison finds changes.
    fn tick(&mut self, _regions: Option<&[Region]>) {}

    /// The same for one region.
    fn tick_at(&mut self, _region: &Region) {}

    /// The writes found since the last call.
    fn take_written(&mut self) -> Vec<WrittenOf> {
        Vec::new()
    }

    /// These regions have been staged at their current places.
    fn saved(&mut self, regions: &[Region]);

    fn found_by(&self) -> FoundBy;
}

/// A saved region of bytes without a type, at these places.
#[cfg(test)]
fn item_of(name: &str, extents: Vec<crate::space::format::Extent>) -> crate::space::format::Item {
    use crate::space::format::{ElementType, Item, ItemKind};
    let bytes = extents.iter().map(|extent| extent.bytes).sum();
    Item {
        name: name.to_owned(),
        kind: ItemKind::Region,
        element: ElementType::Bytes,
        bytes,
        shape: vec![bytes],
        place: None,
        same_on_all_ranks: false,
        extents,
    }
}
