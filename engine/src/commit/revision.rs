//! The identity of a revision, and one rank's part of it.

use crate::{
    mutant::{self, Mutant},
    space::{
        BlockSet,
        format::{BLOCK_BYTES, Entry, Frame, Lineage, Manifest, Run, frames_in},
        free::{Blocks, united},
        pays,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, OnceLock},
};

/// A revision's identity. The newest has the highest lineage, and in that the highest number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// A revision that all ranks know to be complete, and its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Complete {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    pub(crate) layout: [u8; 16],
}

/// A shard in a portion, and all blocks that it needs.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) entry: Entry,
    /// Ascending, disjoint.
    pub(crate) blocks: Vec<Blocks>,
    /// Number of those blocks that hold items.
    pub(crate) data: u64,
    /// Its frames, ascending.
    pub(crate) frames: Vec<Frame>,
    /// The blocks as a set, once it has been needed.
    set: OnceLock<(Range<u64>, BlockSet)>,
}

impl Kept {
    /// The shard of `entry`; `manifest` is its own.
    pub(crate) fn of(entry: Entry, manifest: &Manifest) -> Kept {
        let own = entry.meta_at..entry.meta_at + entry.meta_bytes;
        let mut blocks = Vec::with_capacity(2 * manifest.runs.len() + 1);
        for run in &manifest.runs {
            blocks.push(run.stretch());
            // The row of a run of an older revision is outside this revision's metadata.
            let row = run.row();
            if row.start < own.start || row.end > own.end {
                blocks.push(run.row_blocks());
            }
        }
        // One block of a frame needs the whole stored frame, and keeps its room: no other bytes have its places.
        blocks.extend(manifest.frames.iter().map(Frame::room));
        blocks.push(Blocks { first: own.start / BLOCK_BYTES, count: entry.meta_bytes / BLOCK_BYTES });
        let data = manifest.runs.iter().map(|run| run.blocks).sum();
        Kept::new(entry, united(blocks), data, manifest.frames.clone())
    }

    pub(super) fn new(entry: Entry, blocks: Vec<Blocks>, data: u64, frames: Vec<Frame>) -> Kept {
        Kept { entry, blocks, data, frames, set: OnceLock::new() }
    }

    /// An imagined shard with its blocks, all in `range`, given only as a set.
    pub(super) fn as_set(entry: Entry, blocks: BlockSet, range: Range<u64>) -> Kept {
        let data = blocks.count();
        Kept { entry, blocks: Vec::new(), data, frames: Vec::new(), set: OnceLock::from((range, blocks)) }
    }

    /// Whether its blocks are listed.
    pub(super) fn is_listed(&self) -> bool {
        !self.blocks.is_empty() || self.set.get().is_none()
    }

    /// Makes the set of its blocks, which is needed when room is sought in a portion with the blocks in `range`.
    pub(crate) fn make_set(&self, range: Range<u64>) {
        self.set(range);
    }

    /// Removes the blocks from `free`, a set of blocks in `range`.
    pub(super) fn take_from(&self, free: &mut BlockSet, range: Range<u64>) {
        match self.set(range) {
            Some(set) => free.remove_all(&set),
            None => self.blocks.iter().for_each(|blocks| free.remove(*blocks)),
        }
    }

    /// Adds the blocks to `all`, a set of blocks in `range`.
    pub(super) fn add_to(&self, all: &mut BlockSet, range: Range<u64>) {
        match self.set(range) {
            Some(set) => all.add_all(&set),
            None => {
                for blocks in &self.blocks {
                    all.add(*blocks);
                }
            }
        }
    }

    /// The blocks as a set within `range`, if there are many.
    fn set(&self, range: Range<u64>) -> Option<Cow<'_, BlockSet>> {
        if self.is_listed() && !pays(self.blocks.len(), range.clone()) {
            return None;
        }
        let set_of = || {
            let mut set = BlockSet::within(range.clone());
            for blocks in &self.blocks {
                set.add(*blocks);
            }
            set
        };
        let (of, set) = self.set.get_or_init(|| (range.clone(), set_of()));
        Some(if *of == range { Cow::Borrowed(set) } else { Cow::Owned(set_of()) })
    }

    pub(crate) fn key(&self) -> RevisionKey {
        RevisionKey::of(&self.entry)
    }

    /// Whether the shard was never saved: `Allocation::imagined` made it.
    pub(super) fn is_imagined(&self) -> bool {
        self.entry.lineage.number == u64::MAX
    }

    /// How many blocks the shard takes.
    pub(crate) fn count(&self) -> u64 {
        self.blocks.iter().map(|blocks| blocks.count).sum()
    }
}

/// The frames of those `kept` with blocks of these runs, ascending.
pub(super) fn frames_of(kept: &[Arc<Kept>], shared: &[Run]) -> Vec<Frame> {
    // Most have none, and then there may be very many runs.
    let packed: Vec<&Arc<Kept>> = kept.iter().filter(|kept| !kept.frames.is_empty()).collect();
    if packed.is_empty() {
        return Vec::new();
    }
    let of_run = |run: &Run| {
        let stretch = run.stretch();
        packed.iter().flat_map(move |kept| frames_in(&kept.frames, stretch))
    };
    let mut frames: Vec<Frame> = shared.iter().flat_map(of_run).copied().collect();
    frames.sort_unstable_by_key(|frame| frame.first_block);
    frames.dedup();
    frames
}
