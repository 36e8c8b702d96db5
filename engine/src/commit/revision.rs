//! What names a revision, and what one rank holds of it.

use crate::{
    mutant::{self, Mutant},
    space::{
        format::{Entry, Lineage},
        free::Blocks,
    },
};
use serde::{Deserialize, Serialize};

/// A revision's identity. Newest means highest lineage, then highest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RevisionKey {
    pub lineage: Lineage,
    pub number: u64,
}

impl RevisionKey {
    pub(crate) fn of(entry: &Entry) -> RevisionKey {
        Self::new(entry.lineage, entry.number)
    }

    pub(crate) fn new(lineage: Lineage, number: u64) -> RevisionKey {
        if mutant::is(Mutant::NoId) {
            return RevisionKey { lineage: Lineage { number: 0, id: [0; 16] }, number };
        }
        RevisionKey { lineage, number }
    }
}

/// A revision that all ranks know to be complete, and the layout that it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Complete {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    pub(crate) layout: [u8; 16],
}

/// A shard in a portion, and all blocks that it needs to stay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) entry: Entry,
    pub(crate) blocks: Vec<Blocks>,
}

impl Kept {
    pub(crate) fn key(&self) -> RevisionKey {
        RevisionKey::of(&self.entry)
    }
}
