//! What changed since an older revision was saved in the same portion: only that is staged, and the blocks of all else are
//! shared with it. There are two ways to find out: by `hashes` of blocks, and by the `written` pages, which `pages` has the
//! kernel tell.
//!
//! What must hold: a block is clean when it has not changed since *this address* was saved, under whatever name; what
//! nobody can tell to be clean has changed.

mod base;
mod early;
mod fewer;
mod filling;
mod found;
mod hashes;
mod index;
mod late;
mod led;
mod lies;
mod outline;
mod pages;
mod plan;
mod vacate;
mod watched;
mod written;

pub(crate) use base::Base;
pub(crate) use early::EarlyBlocks;
pub(crate) use found::Found;
pub(crate) use hashes::{ByHashes, audit};
pub(crate) use late::Late;
pub(crate) use led::{Led, differing, differing_or_sparse};
pub(crate) use lies::Lies;
pub(crate) use pages::PageTracker;
pub(crate) use plan::{OWN_RUNS_MAX, Part, PartPlace, Plan, size_elsewhere, size_to_lead};
pub(crate) use written::Written;

use super::Region;
use crate::space::format::FoundBy;
use std::{fmt::Debug, ops::Range};

/// What was found written of memory that is watched, as addresses; all of it, where that is not certain.
#[derive(Debug)]
pub(crate) struct WrittenOf {
    pub(crate) watched: Range<usize>,
    pub(crate) written: Vec<Range<usize>>,
}

/// A way to find out what changed.
pub(crate) trait Changes: Debug + Send {
    /// Which whole blocks of each region are as `base` has them; all else may have changed. `is_since`: `base` is what was
    /// saved last, and nobody has looked since.
    fn find(&mut self, regions: &[Region], base: &Base, is_since: bool) -> Vec<Found>;

    /// Looks where there is nothing to compare with.
    fn look(&mut self, _regions: &[Region]) {}

    /// Looks at a moment between two checkpoints: at these regions, or at what was looked at last. What is told then is told
    /// to the next `find`, too. Nothing where only a comparison tells what changed.
    fn tick(&mut self, _regions: Option<&[Region]>) {}

    /// The same of one region.
    fn tick_at(&mut self, _region: &Region) {}

    /// What was found written since this was last asked.
    fn told(&mut self) -> Vec<WrittenOf> {
        Vec::new()
    }

    /// These regions have been staged, as they lie now.
    fn saved(&mut self, regions: &[Region]);

    fn found_by(&self) -> FoundBy;
}
