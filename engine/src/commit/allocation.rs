//! Where a new revision goes, and how many roots must first let go of old ones.

use super::Kept;
use crate::{
    capture::first_blocks,
    mutant::{self, Mutant},
    space::{
        Portion,
        format::{BLOCK_BYTES, Catalogue, HASH_BYTES, Hash, Run, blocks_for},
        free::{Blocks, FreeMap},
    },
};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc};

/// Blocks that a shard needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) data: u64,
    /// Hashes and manifest, in one stretch.
    pub(crate) meta: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Allocation {
    /// Catalogues of the roots without what is to be freed, to be written before the first block.
    pub(crate) freeing: Vec<Blocks>,
    /// Catalogue of the root that publishes the revision.
    pub(crate) catalogue: Blocks,
    pub(crate) meta: Blocks,
    pub(crate) data: Vec<Blocks>,
}

impl Allocation {
    /// Roots that this revision writes, each a catalogue and a slot: those that free, and its own.
    pub(crate) fn roots(&self) -> u64 {
        self.freeing.len() as u64 + 1
    }

    /// The runs of a log of `blocks`. `hash_of`: the hash of these bytes of the metadata, which begins with
    /// the rows of hashes.
    pub(crate) fn runs(&self, blocks: u64, hash_of: impl Fn(Range<usize>) -> Hash) -> Vec<Run> {
        let mut from = 0;
        let runs = first_blocks(&self.data, blocks).into_iter().map(|blocks| {
            let row = from..from + blocks.count as usize * HASH_BYTES;
            let hashes_at = self.meta.first * BLOCK_BYTES + from as u64;
            from = row.end;
            Run { first_block: blocks.first, blocks: blocks.count, hashes_at, hashes_hash: hash_of(row) }
        });
        runs.collect()
    }

    /// All blocks that it names.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Blocks> + '_ {
        self.freeing.iter().chain([&self.catalogue, &self.meta]).chain(&self.data).copied()
    }

    /// Whether all of them are blocks that data and metadata of `portion` may use.
    pub(crate) fn is_inside(&self, portion: &Portion) -> bool {
        let (from, to) = portion.data_blocks();
        let is_inside =
            |Blocks { first, count }| first >= from && first.checked_add(count).is_some_and(|end| end <= to);
        self.blocks().all(is_inside)
    }

    /// Blocks of one of these roots.
    pub(crate) fn root_blocks(&self) -> u64 {
        self.catalogue.count + 1
    }
}

/// What a slot refers to.
pub(super) struct Referred<'a> {
    pub(super) sequence: u64,
    pub(super) kept: &'a [Arc<Kept>],
    pub(super) catalogue: Option<Blocks>,
}

impl Referred<'_> {
    fn blocks(&self) -> impl Iterator<Item = Blocks> + '_ {
        self.kept.iter().flat_map(|kept| kept.blocks.iter().copied()).chain(self.catalogue)
    }
}

/// Finds room beside `retained`, in blocks `from..to`, with as few freeing roots as possible.
/// Each freeing root overwrites the slot with the lower sequence, exactly as it will be written.
pub(super) fn allocate<'a>(
    (from, to): (u64, u64),
    mut slots: [Referred<'a>; 2],
    retained: &'a [Arc<Kept>],
    need: Need,
) -> Option<Allocation> {
    let catalogue = blocks_for(Catalogue::bytes_for(retained.len() + 1));
    let mut freeing = Vec::new();
    loop {
        let used: Vec<Blocks> = if mutant::is(Mutant::FreeTooEarly) {
            let of_retained = retained.iter().flat_map(|kept| kept.blocks.iter().copied());
            of_retained.chain(slots.iter().filter_map(|slot| slot.catalogue)).collect()
        } else {
            slots.iter().flat_map(Referred::blocks).collect()
        };
        let mut free = FreeMap::new(from, to, used);
        let mut rest = free.clone();
        if let Some(catalogue) = rest.take_high(catalogue)
            && let Some(meta) = rest.take_high(need.meta)
            && let Some(data) = rest.take_low(need.data)
        {
            return Some(Allocation { freeing, catalogue, meta, data });
        }
        if freeing.len() == 2 {
            return None;
        }
        let blocks = free.take_high(catalogue)?;
        freeing.push(blocks);
        let lower = usize::from(slots[1].sequence < slots[0].sequence);
        let sequence = slots[1 - lower].sequence + 1;
        slots[lower] = Referred { sequence, kept: retained, catalogue: Some(blocks) };
    }
}
