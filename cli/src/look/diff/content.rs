//! Compares two items by their bytes: block by block, if the blocks have the same order in both, or cell by cell.

use super::difference::Difference;
use crate::{
    exit::Failure,
    take::{Block, left_by},
};
use mainstay_engine::{
    Reader,
    space::format::{BLOCK_BYTES, Hash, Item},
};

/// Number of blocks in one comparison of hashes.
const WINDOW: u64 = 4096;
/// Number of blocks in one read.
const STRETCH: u64 = 256;
/// Bytes of cells of a global array in one read.
const SLAB_BYTES: u64 = 4 << 20;

/// Equalizes bytes of an item that mean the same in both revisions; gets the shard, the name, and the bytes of both.
pub type Settle<'a> = &'a dyn Fn(u32, &str, &[u8], &mut [u8]);

/// The difference of two items.
#[derive(Debug, Default)]
pub struct Content {
    pub blocks: u64,
    pub blocks_changed: u64,
    pub difference: Difference,
    /// The last block that was counted.
    last_changed: Option<u64>,
}

impl Content {
    /// The difference of so many bytes without a counterpart.
    pub fn other(bytes: u64) -> Content {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        Content { blocks, blocks_changed: blocks, ..Content::default() }
    }

    /// Compares bytes of both that begin at `at` in the item, a multiple of a block. Blocks in `changed` count as
    /// changed in any case.
    fn add(&mut self, item: &Item, at: u64, changed: &[bool], a: &[u8], b: &[u8]) {
        let blocks = a.chunks(BLOCK_BYTES as usize).zip(b.chunks(BLOCK_BYTES as usize));
        for (offset, (a, b)) in (at..).step_by(BLOCK_BYTES as usize).zip(blocks) {
            if a != b || changed.get((offset / BLOCK_BYTES) as usize) == Some(&true) {
                self.blocks_changed += 1;
                self.last_changed = Some(offset / BLOCK_BYTES);
                self.difference.add(item.element, offset / item.element.size(), a, b);
            }
        }
    }
}

/// Compares an item of one shard in both revisions. Reads only blocks with different hashes.
pub fn by_blocks(
    a: &mut Reader,
    b: &mut Reader,
    shard: u32,
    items: [&Item; 2],
    settle: Settle,
) -> Result<Content, Failure> {
    let [item, other] = items;
    let (common, longer) = (item.bytes.min(other.bytes), item.bytes.max(other.bytes));
    let (blocks, all) = (common.div_ceil(BLOCK_BYTES), longer.div_ceil(BLOCK_BYTES));
    let mut content = Content { blocks: all, ..Content::default() };
    let name = item.name.as_str();
    for first in (0..blocks).step_by(WINDOW as usize) {
        let count = WINDOW.min(blocks - first);
        let [here, there] = [&mut *a, &mut *b].map(|reader| {
            let mut hashes: Vec<Option<Hash>> = vec![None; count as usize];
            reader.hashes(shard, name, first, &mut hashes).map(|()| hashes)
        });
        let (here, there) = (here?, there?);
        let is_same = |index: u64| here[index as usize].is_some() && here[index as usize] == there[index as usize];
        let mut index = 0;
        while index < count {
            if is_same(index) {
                index += 1;
                continue;
            }
            let end = (index..count.min(index + STRETCH)).find(|index| is_same(*index));
            let end = end.unwrap_or(count.min(index + STRETCH));
            let at = (first + index) * BLOCK_BYTES;
            let bytes = ((end - index) * BLOCK_BYTES).min(common - at) as usize;
            let (here, mut there) = (read(a, shard, name, at, bytes)?, read(b, shard, name, at, bytes)?);
            settle(shard, name, &here, &mut there);
            content.add(item, at, &[], &here, &there);
            index = end;
        }
    }
    // A block that is longer in one of the two has changed, even if the common part is equal.
    let is_filled = longer > common && !common.is_multiple_of(BLOCK_BYTES);
    let is_counted = content.last_changed.is_some_and(|last| last + 1 == blocks);
    content.blocks_changed += all - blocks + u64::from(is_filled && !is_counted);
    Ok(content)
}

fn read(reader: &mut Reader, shard: u32, name: &str, at: u64, bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut into = vec![0; bytes];
    let there = reader.read(shard, name, at, &mut into)?;
    into.truncate(there);
    Ok(into)
}

/// The cells of a global array in one revision.
pub struct Cells<'a> {
    pub item: &'a Item,
    pub boxed: Block,
    /// The cells that the other revision lacks, as blocks.
    pub alone: Vec<Block>,
}

impl Cells<'_> {
    /// True if the other revision has none of them.
    pub fn are_all_alone(&self) -> bool {
        let cells = |block: &Block| block.shape.iter().product::<u64>();
        cells(&self.boxed) > 0 && self.alone.iter().map(cells).sum::<u64>() == cells(&self.boxed)
    }

    /// The blocks of the item with cells that the other revision lacks.
    pub fn blocks_alone(&self) -> Vec<bool> {
        let mut blocks = vec![false; self.item.bytes.div_ceil(BLOCK_BYTES) as usize];
        for (at, _, bytes) in self.alone.iter().flat_map(|block| stretches(block, &self.boxed, self.item)) {
            let (first, last) = (at as u64 / BLOCK_BYTES, (at + bytes - 1) as u64 / BLOCK_BYTES);
            blocks[first as usize..=last as usize].fill(true);
        }
        blocks
    }

    /// The difference for cells without a counterpart.
    pub fn uncompared(&self) -> Content {
        let blocks = self.blocks_alone();
        let changed = blocks.iter().filter(|is_alone| **is_alone).count() as u64;
        Content { blocks: blocks.len() as u64, blocks_changed: changed, ..Content::default() }
    }
}

/// Compares the box of a global array in a shard of `a` with the same cells of `b`, in whichever shard. A cell that `b`
/// lacks counts in its block, but not as a changed element.
pub fn by_cells(a: &mut Reader, b: &mut Reader, shard: u32, cells: &Cells) -> Result<Content, Failure> {
    let Cells { item, boxed, alone } = cells;
    let blocks_alone = cells.blocks_alone();
    let mut content = Content { blocks: blocks_alone.len() as u64, ..Content::default() };
    // Whole blocks, so that each is counted once.
    let mut pending = (0, Vec::new(), Vec::new());
    for Slab { slab, at, bytes } in slabs(boxed, item.element.size()) {
        let here = read(a, shard, &item.name, at, bytes as usize)?;
        let there = beside(b, item, &slab, alone, &here)?;
        pending.1.extend(here);
        pending.2.extend(there);
        let is_last = at + bytes == item.bytes;
        let whole =
            if is_last { pending.1.len() } else { pending.1.len() / BLOCK_BYTES as usize * BLOCK_BYTES as usize };
        content.add(item, pending.0, &blocks_alone, &pending.1[..whole], &pending.2[..whole]);
        pending = (pending.0 + whole as u64, pending.1.split_off(whole), pending.2.split_off(whole));
    }
    Ok(content)
}

/// A contiguous part of a box, and its place in the item.
struct Slab {
    slab: Block,
    at: u64,
    bytes: u64,
}

/// Cuts a box into contiguous parts, in order, none much larger than `SLAB_BYTES`; `cell`: bytes of a cell.
fn slabs(boxed: &Block, cell: u64) -> impl Iterator<Item = Slab> {
    // Bytes of all cells that share their first so many coordinates.
    let below = |dims: usize| boxed.shape[dims..].iter().product::<u64>() * cell;
    let dims = boxed.shape.len();
    let cut = (0..dims).find(|dim| below(dim + 1) <= SLAB_BYTES).unwrap_or(0);
    let (length, row) = (boxed.shape.get(cut).copied().unwrap_or(1), below(dims.min(cut + 1)));
    let together = (SLAB_BYTES / row.max(1)).clamp(1, length.max(1));
    let outer = if below(0) == 0 { 0 } else { boxed.shape[..cut.min(dims)].iter().product::<u64>() };
    let boxed = boxed.clone();
    (0..outer).flat_map(move |index| {
        let mut one = boxed.clone();
        let mut rest = index;
        for dim in (0..cut).rev() {
            one.offset[dim] += rest % boxed.shape[dim];
            (one.shape[dim], rest) = (1, rest / boxed.shape[dim]);
        }
        (0..length).step_by(together as usize).map(move |first| {
            let (mut slab, count) = (one.clone(), together.min(length - first));
            if let (Some(length), Some(from)) = (slab.shape.get_mut(cut), slab.offset.get_mut(cut)) {
                *length = count;
                *from += first;
            }
            Slab { slab, at: (index * length + first) * row, bytes: count * row }
        })
    })
}

/// The cells of `slab` in `b`, with the cells of `here` in place of missing ones.
fn beside(b: &mut Reader, item: &Item, slab: &Block, alone: &[Block], here: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut there = here.to_vec();
    let both = left_by(slab, alone).ok_or_else(|| cut_too_finely(&item.name))?;
    for block in both {
        let bytes = block.shape.iter().product::<u64>() * item.element.size();
        let mut cells = vec![0; bytes as usize];
        b.read_box(&item.name, &block.offset, &block.shape, &mut cells)?;
        for (at, from, bytes) in stretches(&block, slab, item) {
            there[at..at + bytes].copy_from_slice(&cells[from..from + bytes]);
        }
    }
    Ok(there)
}

/// The rows of a block inside another: the begin of each in that block and in itself, and its length, in bytes.
fn stretches(block: &Block, within: &Block, item: &Item) -> impl Iterator<Item = (usize, usize, usize)> {
    let size = item.element.size();
    let dims = block.shape.len();
    let row = block.shape.last().map_or(1, |length| *length);
    let count = block.shape.iter().product::<u64>() / row.max(1);
    let (block, within) = (block.clone(), within.clone());
    (0..count).map(move |index| {
        let (mut rest, mut at, mut stride) = (index, 0, size);
        for dim in (0..dims).rev() {
            let mut position = block.offset[dim] - within.offset[dim];
            if dim + 1 < dims {
                position += rest % block.shape[dim];
                rest /= block.shape[dim];
            }
            at += position * stride;
            stride *= within.shape[dim];
        }
        (at as usize, (index * row * size) as usize, (row * size) as usize)
    })
}

pub fn cut_too_finely(name: &str) -> Failure {
    Failure::lost(format!("item {name:?}: the boxes of its global array cut each other too finely to be compared"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_follow_each_other_and_are_small_whichever_sides_are_long() {
        let shapes: [&[u64]; 9] = [
            &[],
            &[0],
            &[3, 0, 5],
            &[7],
            &[3 << 20],
            &[1, 1, 5000, 1000],
            &[2, 3, 700_000],
            &[1 << 20, 3, 2],
            &[1, 3 << 20, 1, 2],
        ];
        for shape in shapes {
            let boxed = Block { offset: (3..).take(shape.len()).collect(), shape: shape.to_vec() };
            let inside = |slab: &Block, dim: usize| slab.offset[dim] - boxed.offset[dim];
            let (mut at, mut count) = (0, 0);
            for Slab { slab, at: begins, bytes } in slabs(&boxed, 8) {
                assert_eq!((begins, slab.shape.iter().product::<u64>() * 8), (at, bytes), "{shape:?}");
                assert!(bytes <= SLAB_BYTES, "{shape:?}: {bytes}");
                let first = (0..shape.len()).fold(0, |first, dim| first * shape[dim] + inside(&slab, dim));
                assert_eq!(first * 8, at, "{shape:?}");
                assert!((0..shape.len()).all(|dim| inside(&slab, dim) + slab.shape[dim] <= shape[dim]), "{shape:?}");
                (at, count) = (at + bytes, count + 1);
            }
            let all = shape.iter().product::<u64>() * 8;
            assert!(at == all && count <= 2 + 2 * all / SLAB_BYTES + all / (SLAB_BYTES / 2), "{shape:?}: {count}");
        }
    }
}
