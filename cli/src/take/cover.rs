//! Overlapping blocks of an array: each cell belongs to the first block that has it.

use std::collections::BTreeSet;

/// More blocks than this are not the decomposition of an array.
const BLOCKS_MAX: usize = 1 << 16;

/// A box in an array. Its end fits into the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub offset: Vec<u64>,
    pub shape: Vec<u64>,
}

impl Block {
    fn end(&self, dim: usize) -> u64 {
        self.offset[dim] + self.shape[dim]
    }

    fn meets(&self, other: &Block) -> bool {
        (0..self.shape.len()).all(|dim| self.offset[dim] < other.end(dim) && other.offset[dim] < self.end(dim))
    }

    /// The rest of it without `other`: slabs before and behind, one dimension after the other.
    fn without(mut self, other: &Block) -> Vec<Block> {
        if !self.meets(other) {
            return vec![self];
        }
        let mut left = Vec::new();
        for dim in 0..self.shape.len() {
            let (from, to) = (other.offset[dim].max(self.offset[dim]), other.end(dim).min(self.end(dim)));
            for (begin, end) in [(self.offset[dim], from), (to, self.end(dim))] {
                if begin < end {
                    let mut slab = self.clone();
                    (slab.offset[dim], slab.shape[dim]) = (begin, end - begin);
                    left.push(slab);
                }
            }
            (self.offset[dim], self.shape[dim]) = (from, to - from);
        }
        left
    }
}

/// The part of a block that none of the `others` has, as blocks; `None` if that takes too many.
pub fn left_by(block: &Block, others: &[Block]) -> Option<Vec<Block>> {
    let mut left = if block.shape.contains(&0) { Vec::new() } else { vec![block.clone()] };
    for other in others.iter().filter(|other| !other.shape.contains(&0) && other.meets(block)) {
        left = left.into_iter().flat_map(|block| block.without(other)).collect();
        if left.len() > BLOCKS_MAX {
            return None;
        }
    }
    Some(left)
}

/// The part of each block that no earlier block has, as blocks; `None` if that takes too many.
pub fn blocks_of_their_own(blocks: &[Block]) -> Option<Vec<Vec<Block>>> {
    let (mut own, mut count) = (Vec::new(), 0);
    for (block, before) in blocks.iter().zip(overlaps(blocks)?) {
        let mut left = if block.shape.contains(&0) { Vec::new() } else { vec![block.clone()] };
        for other in before {
            left = left.into_iter().flat_map(|block| block.without(&blocks[other])).collect();
            if left.len() > BLOCKS_MAX {
                return None;
            }
        }
        count += left.len();
        if count > BLOCKS_MAX.max(blocks.len()) {
            return None;
        }
        own.push(left);
    }
    Some(own)
}

/// For each block, the earlier blocks that it overlaps. Along the most divided dimension, only few blocks are side by
/// side.
fn overlaps(blocks: &[Block]) -> Option<Vec<Vec<usize>>> {
    let mut before = vec![Vec::new(); blocks.len()];
    let dims = blocks.first().map_or(0, |block| block.shape.len());
    let cuts = |dim: &usize| blocks.iter().map(|block| block.offset[*dim]).collect::<BTreeSet<u64>>().len();
    let Some(dim) = (0..dims).max_by_key(cuts) else {
        // For a single cell, without sides, the first block has it.
        before.iter_mut().skip(1).for_each(|before| before.push(0));
        return Some(before);
    };
    let mut order: Vec<usize> = (0..blocks.len()).filter(|index| !blocks[*index].shape.contains(&0)).collect();
    order.sort_by_key(|index| blocks[*index].offset[dim]);
    let (mut beside, mut count): (Vec<usize>, usize) = (Vec::new(), 0);
    for index in order {
        let block = &blocks[index];
        beside.retain(|other| blocks[*other].end(dim) > block.offset[dim]);
        for other in beside.iter().filter(|other| blocks[**other].meets(block)) {
            before[index.max(*other)].push(index.min(*other));
            count += 1;
        }
        if count > BLOCKS_MAX * 32 {
            return None;
        }
        beside.push(index);
    }
    Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a count of single cells.
    #[test]
    fn each_cell_is_of_the_first_block_that_has_it() {
        let side = 7_u64;
        // Knuth's generator: the same blocks each time.
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let blocks: Vec<Block> = (0..6)
                .map(|_| {
                    let offset: Vec<u64> = (0..3).map(|_| random(side)).collect();
                    let shape = offset.iter().map(|from| random(side - from + 1)).collect();
                    Block { offset, shape }
                })
                .collect();
            let own = blocks_of_their_own(&blocks).unwrap();
            for cell in 0..side.pow(3) {
                let at = [cell / side / side, cell / side % side, cell % side];
                let has = |block: &Block| (0..3).all(|d| (block.offset[d]..block.end(d)).contains(&at[d]));
                let first = blocks.iter().position(has);
                let owners: Vec<usize> =
                    (0..6).flat_map(|i| own[i].iter().filter(|b| has(b)).map(move |_| i)).collect();
                assert_eq!(owners, first.into_iter().collect::<Vec<_>>(), "{at:?} of {blocks:?}");
            }
        }
    }

    #[test]
    fn a_single_cell_is_of_the_first() {
        let cell = Block { offset: vec![], shape: vec![] };
        assert_eq!(blocks_of_their_own(&vec![cell.clone(); 3]), Some(vec![vec![cell], vec![], vec![]]));
    }

    #[test]
    fn what_overlaps_all_over_is_not_told() {
        let block = |n: u64| Block { offset: vec![n, 0], shape: vec![1 << 20, 1] };
        assert!(blocks_of_their_own(&(0..3000).map(block).collect::<Vec<_>>()).is_none());
        assert_eq!(blocks_of_their_own(&(0..100).map(block).collect::<Vec<_>>()).unwrap().len(), 100);
    }
}
