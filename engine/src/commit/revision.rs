//! What identifies a revision, and what one rank holds of it.

use super::{Allocation, Need};
use crate::{
    mutant::{self, Mutant},
    space::{
        format::{BLOCK_BYTES, Entry, HASH_BYTES, Lineage, Manifest, PhaseRecord, blocks_for},
        free::{Blocks, united},
    },
};
use serde::{Deserialize, Serialize};

/// A revision's identity. The newest has the highest lineage, and in that the highest number.
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
    /// Ascending, apart from one another.
    pub(crate) blocks: Vec<Blocks>,
    /// How many of them hold items.
    pub(crate) data: u64,
}

impl Kept {
    /// The shard that `entry` leads to; `manifest` is its own.
    pub(crate) fn of(entry: Entry, manifest: &Manifest) -> Kept {
        let own = entry.meta_at..entry.meta_at + entry.meta_bytes;
        let mut blocks = Vec::with_capacity(2 * manifest.runs.len() + 1);
        for run in &manifest.runs {
            blocks.push(run.stretch());
            // The row of a run of an older revision lies outside this revision's metadata.
            let row = run.row();
            if row.start < own.start || row.end > own.end {
                blocks.push(run.row_blocks());
            }
        }
        blocks.push(Blocks { first: own.start / BLOCK_BYTES, count: entry.meta_bytes / BLOCK_BYTES });
        Kept { entry, blocks: united(blocks), data: manifest.runs.iter().map(|run| run.blocks).sum() }
    }

    pub(crate) fn key(&self) -> RevisionKey {
        RevisionKey::of(&self.entry)
    }

    /// A shard that would lie at `place`, newer than any that is there.
    pub(super) fn imagined(number: u64, place: &Allocation) -> Kept {
        let shared = place.shared.iter().flat_map(|run| [run.stretch(), run.row_blocks()]);
        let entry = Entry {
            lineage: Lineage { number: u64::MAX, id: [0; 16] },
            number,
            shards: 1,
            shard: 0,
            bytes: 0,
            manifest_at: 0,
            manifest_bytes: 0,
            manifest_hash: [0; 16],
            meta_at: 0,
            meta_bytes: 0,
            phases: PhaseRecord::default(),
        };
        let blocks = united(place.data.iter().copied().chain([place.meta]).chain(shared).collect());
        Kept { entry, blocks, data: place.log_blocks() }
    }

    /// What a shard like this one needs.
    pub(super) fn need(&self) -> Need {
        // The rows of a shard that shares blocks with others lie apart.
        let (meta, rows) = (self.entry.meta_bytes / BLOCK_BYTES, blocks_for(self.data * HASH_BYTES as u64));
        Need { data: self.data, meta: meta.max(rows + blocks_for(self.entry.manifest_bytes)) }
    }

    /// How many blocks the shard takes.
    pub(crate) fn count(&self) -> u64 {
        self.blocks.iter().map(|blocks| blocks.count).sum()
    }
}
