//! The room that a shard may need, estimated at t1, before its pieces arrive.

use super::{Marked, Region, region::Description};
use crate::space::format::{Annex, BLOCK_BYTES, HASH_BYTES, Item, ItemKind, Manifest, Note, Profile, blocks_for};
use serde::{Deserialize, Serialize};

/// Room in the list of items for the extents of streams: one for each so many announced bytes, plus a fixed number.
const BYTES_AN_EXTENT: u64 = 256;
const EXTENTS_FEW: u64 = 4096;

/// Estimates for a state of which only the size is known: this many regions with names and dimensions of this length,
/// and one more for each so many blocks. Each may leave a part of its last block empty.
const REGIONS_FEW: usize = 8;
const REGION_LIKELY: (usize, usize) = (64, 4);
const BLOCKS_A_REGION: u64 = 1024;

/// The data that a rank is about to save.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Size {
    /// Upper bound of the shard's blocks.
    blocks: u64,
    /// Bytes of the name, and dimensions, of each region.
    regions: Vec<(usize, usize)>,
    /// Upper bound of the extents of all streams together.
    extents: u64,
    /// Further parts of the regions, if only changes are saved.
    parts: u64,
    /// Runs of older revisions.
    shared_runs: usize,
    /// Bytes that the program announced as pieces.
    pub(crate) announced: u64,
    pub(crate) annex: Annex,
}

impl Size {
    /// The size of a shard of these regions and of pieces of at most `announced` bytes. Regions smaller than
    /// `small_below` are gathered separately.
    pub(crate) fn new(
        regions: &[Region],
        announced: u64,
        small_below: u64,
        notes: Vec<Note>,
        outputs: &[Marked],
    ) -> Size {
        let lengths = outputs.iter().map(|output| output.length.clone()).collect();
        // The profile is computed later; this one stands for its size.
        let annex = Annex { notes, outputs: lengths, profile: Some(Profile::default()), saved_early: None };
        let regions: Vec<&Description> = regions.iter().map(|region| &*region.description).collect();
        Self::of(&regions, announced, small_below, annex)
    }

    /// The size of a shard with the items of a saved one, at any stage.
    pub(crate) fn of_items(items: Vec<Item>, annex: Annex) -> Size {
        let (streams, regions): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| item.kind == ItemKind::Stream);
        let announced = streams.iter().fold(0, |sum: u64, stream| sum.saturating_add(stream.bytes));
        let parts = regions.iter().map(|region| region.extents.len().saturating_sub(2) as u64).sum();
        let regions: Vec<Description> = regions.into_iter().map(Description::of).collect();
        let annex = Annex { profile: Some(Profile::default()), ..annex };
        Self::of(&regions.iter().collect::<Vec<_>>(), announced, BLOCK_BYTES, annex).in_parts(parts)
    }

    /// The size of a state of `bytes` bytes, `in_pieces` of them in pieces, if nothing else is known.
    pub(crate) fn of_bytes(bytes: u64, in_pieces: u64) -> Size {
        let announced = in_pieces.min(bytes);
        let spare = REGIONS_FEW as u64 + blocks_for(bytes) / BLOCKS_A_REGION;
        let annex = Annex { profile: Some(Profile::default()), ..Annex::default() };
        Size {
            blocks: blocks_for(bytes) + spare,
            regions: vec![REGION_LIKELY; REGIONS_FEW],
            extents: extents_for(announced),
            parts: 0,
            shared_runs: 0,
            announced,
            annex,
        }
    }

    /// The size of a shard that another rank has measured.
    pub(crate) fn measured(blocks: u64) -> Size {
        let (extents, parts, shared_runs, announced) = (0, 0, 0, 0);
        Size { blocks, regions: Vec::new(), extents, parts, shared_runs, announced, annex: Annex::default() }
    }

    fn of(regions: &[&Description], announced: u64, small_below: u64, annex: Annex) -> Size {
        let (small, rest): (Vec<_>, Vec<_>) = regions.iter().partition(|region| region.bytes < small_below);
        let gathered = |regions: Vec<&Description>| {
            let end =
                |end: u64, region: &Description| end.next_multiple_of(region.alignment()).saturating_add(region.bytes);
            blocks_for(regions.into_iter().fold(0, end))
        };
        // Pieces end on a block before the regions begin; a piece may have two ends. Separately gathered regions have
        // ends of their own.
        let ends = if announced > 0 { 2 + u64::from(small_below > 0) } else { 0 };
        let blocks = gathered(small) + gathered(rest) + blocks_for(announced) + ends;
        let regions = regions.iter().map(|region| (region.name.len(), region.shape.len())).collect();
        Size { blocks, regions, extents: extents_for(announced), parts: 0, shared_runs: 0, announced, annex }
    }

    /// The size if only `blocks` blocks are written. The regions are then in `parts` more parts, and the shard refers
    /// to `shared_runs` runs of older revisions.
    pub(crate) fn of_changed(&self, blocks: u64, parts: u64, shared_runs: usize) -> Size {
        Size { blocks, parts, shared_runs, ..self.clone() }
    }

    /// The size of a shard that may refer to older revisions. Its regions are then in at most `parts` more parts.
    pub(crate) fn to_lead(&self, parts: u64) -> Size {
        let parts = parts + self.regions.len() as u64;
        // The parts of small regions may end on a block of their own.
        let blocks = if self.blocks > 0 { self.blocks + 1 } else { 0 };
        Size { blocks, parts, shared_runs: parts as usize, ..self.clone() }
    }

    /// The size of the shard if it is written whole, although its regions are in `parts` more parts.
    pub(crate) fn in_parts(&self, parts: u64) -> Size {
        Size { parts, ..self.clone() }
    }

    /// The size with room for at least `bytes` bytes of regions.
    pub(crate) fn at_least(&self, bytes: u64) -> Size {
        Size { blocks: self.blocks.max(blocks_for(bytes)), ..self.clone() }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(BLOCK_BYTES)
    }

    /// Bytes of the hashes of its blocks, in whole blocks.
    pub(crate) fn hash_bytes(&self) -> u64 {
        self.hash_blocks() * BLOCK_BYTES
    }

    pub(crate) fn hash_blocks(&self) -> u64 {
        blocks_for(self.blocks * HASH_BYTES as u64)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.regions.is_empty() && self.extents == 0
    }

    /// Upper bound of the number of parts of the streams.
    pub(crate) fn parts_max(&self) -> u64 {
        self.extents
    }

    /// Upper bound of the manifest's length for this many runs.
    pub(crate) fn manifest_bytes_at_most(&self, runs: usize) -> u64 {
        // A region may be in three places: written directly, and the rest in two buffers.
        let extents = self.extents + self.parts + 2 * self.regions.len() as u64;
        let runs = runs + self.shared_runs;
        Manifest::bytes_at_most(&self.regions, &self.annex, runs) + extents * Manifest::EXTENT_BYTES
    }
}

fn extents_for(announced: u64) -> u64 {
    if announced > 0 { EXTENTS_FEW + announced / BYTES_AN_EXTENT } else { 0 }
}
