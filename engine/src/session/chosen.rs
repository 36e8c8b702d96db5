//! A revision that was chosen to be read, and one that was passed over.

use super::level::LevelKind;
use crate::commit::{Complete, RevisionKey};

/// A complete revision, and where its shards lie.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    /// The nearest level that has a shard of it, alone or on a copy.
    pub(super) level: usize,
    pub(super) complete: Complete,
    /// The levels and copies on which its shards are looked for.
    pub(super) on: Vec<usize>,
    /// Each shard is looked for by itself, as not all ranks may see it on the level. Otherwise that is all there is.
    pub(super) is_searched: bool,
    /// Levels and copies where a shard of it was read in vain.
    pub(super) vain: Vec<usize>,
}

/// A revision that came back whole from a level, and what the program has found damaged in it.
pub(super) type PassedOver = ((LevelKind, RevisionKey), Vec<String>);
