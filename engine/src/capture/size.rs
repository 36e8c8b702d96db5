//! How much room a shard may need, known at t1: before its pieces are there.

use super::{Marked, Region, region::Description};
use crate::space::format::{Annex, BLOCK_BYTES, Manifest, Note, Profile, blocks_for};

/// Room in the list of items for the extents of what is written in pieces: one for each so many bytes that
/// were announced, and these besides.
const BYTES_AN_EXTENT: u64 = 256;
const EXTENTS_FEW: u64 = 4096;

/// What a rank is about to save.
#[derive(Debug, Clone)]
pub(crate) struct Size {
    /// Upper bound of the shard's blocks.
    blocks: u64,
    /// Bytes of the name, and dimensions, of each region.
    regions: Vec<(usize, usize)>,
    /// Extents that the streams may take, all together.
    extents: u64,
    /// Bytes that the program said it would write in pieces.
    pub(crate) announced: u64,
    pub(crate) annex: Annex,
}

impl Size {
    /// Of these regions and of pieces of at most `announced` bytes. What is smaller than `small_below` is
    /// gathered apart from the rest.
    pub(crate) fn new(
        regions: &[Region],
        announced: u64,
        small_below: u64,
        notes: Vec<Note>,
        outputs: &[Marked],
    ) -> Size {
        let (small, rest): (Vec<_>, Vec<_>) =
            regions.iter().map(|region| &*region.description).partition(|region| region.bytes < small_below);
        let gathered = |regions: Vec<&Description>| {
            let end =
                |end: u64, region: &Description| end.next_multiple_of(region.alignment()).saturating_add(region.bytes);
            blocks_for(regions.into_iter().fold(0, end))
        };
        // What is written in pieces ends on a block before the regions begin, or a piece may have two ends; what
        // is gathered apart has ends of its own.
        let ends = if announced > 0 { 2 + u64::from(small_below > 0) } else { 0 };
        let blocks = gathered(small) + gathered(rest) + blocks_for(announced) + ends;
        let names = regions.iter().map(|region| (region.description.name.len(), region.description.shape.len()));
        let extents = if announced > 0 { EXTENTS_FEW + announced / BYTES_AN_EXTENT } else { 0 };
        let lengths = outputs.iter().map(|output| output.length.clone()).collect();
        // Its profile comes later; here it stands for its size.
        let annex = Annex { notes, outputs: lengths, profile: Some(Profile::default()) };
        Size { blocks, regions: names.collect(), extents, announced, annex }
    }

    /// The same, with room for `bytes` of regions.
    pub(crate) fn at_least(&self, bytes: u64) -> Size {
        Size { blocks: self.blocks.max(blocks_for(bytes)), ..self.clone() }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.regions.is_empty() && self.extents == 0
    }

    /// Parts that the streams may consist of.
    pub(crate) fn parts_max(&self) -> u64 {
        self.extents
    }

    /// Upper bound of the manifest's length for so many runs.
    pub(crate) fn manifest_bytes_at_most(&self, runs: usize) -> u64 {
        // A region may lie in three places: what went straight through, and the rest in two buffers.
        let extents = self.extents + 2 * self.regions.len() as u64;
        Manifest::bytes_at_most(&self.regions, &self.annex, runs) + extents * Manifest::EXTENT_BYTES
    }
}
