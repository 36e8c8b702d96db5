//! The shard as a stream of blocks: large regions begin on a block, small ones share blocks.

use super::{Description, Marked, Region};
use crate::{
    error::Result,
    space::{
        format::{Annex, BLOCK_BYTES, Extent, Item, ItemKind, Manifest, Note, Run, blocks_for},
        free::Blocks,
    },
};
use std::sync::Arc;

/// Small regions are aligned to this, so that what is read in place is aligned for every element type.
const SMALL_ALIGNMENT: u64 = 64;

/// Where each region lies in the stream, and what goes with it. Holds no address: I/O threads use it
/// after t2.
#[derive(Debug)]
pub(crate) struct Stream {
    items: Vec<Placed>,
    bytes: u64,
    annex: Annex,
    outputs: Vec<Marked>,
}

#[derive(Debug)]
struct Placed {
    description: Arc<Description>,
    offset: u64,
}

/// A stretch of the stream that lies in one run and fits one chunk. Whole blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Offset in the stream and length.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Offset in the portion.
    pub(crate) at: u64,
}

impl Stream {
    pub(crate) fn new(regions: &[Region], notes: Vec<Note>, outputs: Vec<Marked>) -> Stream {
        let (mut items, mut end) = (Vec::with_capacity(regions.len()), 0_u64);
        for region in regions {
            let bytes = region.description.bytes;
            let alignment = if bytes >= BLOCK_BYTES { BLOCK_BYTES } else { SMALL_ALIGNMENT };
            let offset = end.next_multiple_of(alignment);
            items.push(Placed { description: region.description.clone(), offset });
            end = offset + bytes;
        }
        let lengths = outputs.iter().map(|output| output.length.clone());
        let annex = Annex { notes, outputs: lengths.collect(), profile: None };
        Stream { items, bytes: end, annex, outputs }
    }

    pub(crate) fn blocks(&self) -> u64 {
        blocks_for(self.bytes)
    }

    /// Bytes of all items, without gaps.
    pub(crate) fn item_bytes(&self) -> u64 {
        self.items.iter().map(|item| item.description.bytes).sum()
    }

    /// Upper bound of the manifest's length for so many runs.
    pub(crate) fn manifest_bytes_at_most(&self, runs: usize) -> u64 {
        let sizes: Vec<_> = self.items.iter().map(|i| (i.description.name.len(), i.description.shape.len())).collect();
        Manifest::bytes_at_most(&sizes, &self.annex, runs)
    }

    /// Makes the output files durable up to the lengths that the manifest will tell.
    pub(crate) fn sync_outputs(&self) -> Result<()> {
        self.outputs.iter().try_for_each(Marked::sync)
    }

    /// Cuts the stream, laid into `runs` in their order, into pieces of at most `chunk_bytes`.
    pub(crate) fn pieces(&self, runs: &[Blocks], chunk_bytes: u64) -> Vec<Piece> {
        let (mut pieces, mut offset) = (Vec::new(), 0);
        for run in runs {
            let (mut at, end) = (run.first * BLOCK_BYTES, run.end() * BLOCK_BYTES);
            while at < end {
                let bytes = chunk_bytes.min(end - at);
                pieces.push(Piece { offset, bytes, at });
                (at, offset) = (at + bytes, offset + bytes);
            }
        }
        debug_assert_eq!(offset, self.blocks() * BLOCK_BYTES);
        pieces
    }

    /// The parts of regions that lie in `piece`: index of the region, offset in it, offset in the
    /// piece, length. Ascending; what lies between them is padding.
    pub(crate) fn parts(&self, piece: Piece) -> impl Iterator<Item = (usize, u64, u64, u64)> + '_ {
        let end = piece.offset + piece.bytes;
        let first = self.items.partition_point(|item| item.offset + item.description.bytes <= piece.offset);
        let touching = self.items[first..].iter().enumerate().take_while(move |(_, item)| item.offset < end);
        touching.filter_map(move |(index, item)| {
            let from = item.offset.max(piece.offset);
            let to = (item.offset + item.description.bytes).min(end);
            (from < to).then(|| (first + index, from - item.offset, from - piece.offset, to - from))
        })
    }

    /// Copies the bytes of `piece` into `chunk`; padding becomes zero.
    pub(crate) fn fill(&self, piece: Piece, regions: &[Region], chunk: &mut [u8]) {
        assert_eq!(chunk.len() as u64, piece.bytes);
        let mut filled = 0;
        for (index, in_region, in_piece, bytes) in self.parts(piece) {
            chunk[filled..in_piece as usize].fill(0);
            filled = (in_piece + bytes) as usize;
            regions[index].copy_out(in_region, &mut chunk[in_piece as usize..filled]);
        }
        chunk[filled..].fill(0);
    }

    /// The manifest of the stream laid into `runs`.
    pub(crate) fn manifest(&self, runs: Vec<Run>) -> Manifest {
        let mut starts = Vec::with_capacity(runs.len());
        let mut offset = 0;
        for run in &runs {
            starts.push(offset);
            offset += run.blocks * BLOCK_BYTES;
        }
        let items = self.items.iter().map(|item| {
            let (mut extents, mut from) = (Vec::new(), item.offset);
            let end = item.offset + item.description.bytes;
            let mut index = starts.partition_point(|start| *start <= from).saturating_sub(1);
            while from < end {
                let run = &runs[index];
                let to = end.min(starts[index] + run.blocks * BLOCK_BYTES);
                extents.push(Extent { at: run.first_block * BLOCK_BYTES + (from - starts[index]), bytes: to - from });
                (from, index) = (to, index + 1);
            }
            let d = &item.description;
            Item {
                name: d.name.clone(),
                kind: ItemKind::Region,
                element: d.element,
                bytes: d.bytes,
                shape: d.shape.clone(),
                place: None,
                extents,
            }
        });
        let items = items.collect();
        Manifest { runs, items, annex: self.annex.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::format::{BLOCK, ElementType};

    #[allow(unsafe_code)]
    fn region(name: &str, memory: &mut [u8]) -> Region {
        // SAFETY: the tests keep `memory` alive and alone.
        unsafe { Region::array(name, memory.as_mut_ptr(), ElementType::U8, &[memory.len() as u64]) }.unwrap()
    }

    #[test]
    fn pieces_hold_every_byte_once_and_zeros_between() {
        let (mut a, mut b, mut c) = (vec![1; 100], vec![2; 3 * BLOCK + 5], vec![3; 7]);
        let regions = [region("a", &mut a), region("b", &mut b), region("c", &mut c)];
        let stream = Stream::new(&regions, Vec::new(), Vec::new());
        // a alone in a block, b from the next on, c behind b in its last block
        assert_eq!(stream.blocks(), 5);
        let runs = [Blocks { first: 10, count: 2 }, Blocks { first: 40, count: 3 }];
        let mut seen = vec![0; 5 * BLOCK];
        for piece in stream.pieces(&runs, 2 * BLOCK_BYTES) {
            let chunk = &mut seen[piece.offset as usize..][..piece.bytes as usize];
            chunk.fill(9);
            stream.fill(piece, &regions, chunk);
        }
        assert_eq!(seen[..100], a);
        assert!(seen[100..BLOCK].iter().all(|byte| *byte == 0));
        assert_eq!(seen[BLOCK..][..b.len()], b);
        let c_at = (BLOCK + b.len()).next_multiple_of(64);
        assert_eq!(seen[c_at..][..7], c);
        assert!(seen[c_at + 7..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn extents_follow_the_runs() {
        let mut b = vec![2; 3 * BLOCK];
        let stream = Stream::new(&[region("b", &mut b)], Vec::new(), Vec::new());
        let run = |first_block, blocks| Run { first_block, blocks, hashes_at: 0, hashes_hash: [0; 16] };
        let manifest = stream.manifest(vec![run(10, 1), run(40, 2)]);
        let extents = [
            Extent { at: 10 * BLOCK_BYTES, bytes: BLOCK_BYTES },
            Extent { at: 40 * BLOCK_BYTES, bytes: 2 * BLOCK_BYTES },
        ];
        assert_eq!(manifest.items[0].extents, extents);
        assert_eq!(Manifest::parse(&manifest.build(), 1 << 30), Ok(manifest));
    }
}
