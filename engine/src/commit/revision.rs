//! What identifies a revision, and what one rank holds of it.

use crate::{
    mutant::{self, Mutant},
    space::{
        format::{BLOCK_BYTES, Entry, Frame, Lineage, Manifest},
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
    /// Those of its frames, ascending.
    pub(crate) frames: Vec<Frame>,
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
        // Who needs one block of a frame needs what is stored of it, and keeps its room: no other bytes have its places.
        blocks.extend(manifest.frames.iter().map(Frame::room));
        blocks.push(Blocks { first: own.start / BLOCK_BYTES, count: entry.meta_bytes / BLOCK_BYTES });
        let data = manifest.runs.iter().map(|run| run.blocks).sum();
        Kept { entry, blocks: united(blocks), data, frames: manifest.frames.clone() }
    }

    pub(crate) fn key(&self) -> RevisionKey {
        RevisionKey::of(&self.entry)
    }

    /// How many blocks the shard takes.
    pub(crate) fn count(&self) -> u64 {
        self.blocks.iter().map(|blocks| blocks.count).sum()
    }
}
