//! A revision that was chosen for reading, and one that was passed over.

use super::level::LevelKind;
use crate::commit::{Complete, RevisionKey};

/// A complete revision, and the places of its shards.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    /// The nearest level with a shard of it, on the level or on a copy.
    pub(super) level: usize,
    pub(super) complete: Complete,
    /// The levels and copies to search for its shards.
    pub(super) on: Vec<usize>,
    /// Whether each shard is searched by itself, because some ranks may not see it on the level. If not, `level` has
    /// all shards.
    pub(super) is_searched: bool,
    /// Levels and copies where a shard was read in vain.
    pub(super) vain: Vec<usize>,
}

/// A revision that came back whole from a level, and the damage that the program found in it.
pub(super) type PassedOver = ((LevelKind, RevisionKey), Vec<String>);
