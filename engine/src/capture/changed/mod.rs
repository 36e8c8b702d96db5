//! What changed since an older revision was saved in the same portion: only that is staged, and the blocks of all else are
//! shared with it.
//!
//! What must hold: a block is clean when it has not changed since *this address* was saved, under whatever name; what
//! nobody can tell to be clean has changed.

mod base;
mod hashes;
mod plan;

pub(crate) use base::{Base, Lies};
pub(crate) use hashes::Hashes;
pub(crate) use plan::{OWN_RUNS_MAX, Part, Plan};

use super::Region;
use std::fmt::Debug;

/// A way to find out what changed.
pub(crate) trait Changes: Debug + Send {
    /// Which whole blocks of each region are as `base` has them, stretches that ascend; all else has changed. What is
    /// clean next time is counted from now on.
    fn clean(&mut self, regions: &[Region], base: &Base) -> Vec<Vec<Lies>>;
}
