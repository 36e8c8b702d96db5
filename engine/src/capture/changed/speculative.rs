//! Blocks that were saved before their checkpoint: the revision shares them as it shares blocks of an older revision.
//!
//! Invariant: a block counts only for the address from which it was saved, and only if it was not written since.

use super::{Base, BlockRun, block_runs::add, hashes::each_block, watched::range_of};
use crate::{
    capture::Region,
    space::{
        format::{BLOCK, BLOCK_BYTES, HASH_BYTES, Run, hash},
        free::Blocks,
    },
};
use std::{collections::HashMap, ops::Range};

#[derive(Debug, Default)]
pub(crate) struct SpeculativeBlocks {
    /// The place in the portion of each block that counts, by the address from which it was saved.
    at: HashMap<usize, u64>,
    runs: Vec<Run>,
    /// The hashes of all blocks of the runs.
    rows: Vec<u8>,
}

impl SpeculativeBlocks {
    /// Blocks in these ascending `runs`, with the hashes `rows`. `at` gives the places of the blocks that count, by
    /// address.
    pub(crate) fn new(runs: Vec<Run>, rows: Vec<u8>, at: HashMap<usize, u64>) -> SpeculativeBlocks {
        let blocks: u64 = runs.iter().map(|run| run.blocks).sum();
        debug_assert_eq!(rows.len() as u64, blocks * HASH_BYTES as u64, "a block without a hash");
        let early = SpeculativeBlocks { at, runs, rows };
        debug_assert!(early.at.values().all(|at| early.run_of(*at).is_some()), "a block counts that was not written");
        early
    }

    /// The number of blocks that count.
    pub(crate) fn count(&self) -> u64 {
        self.at.len() as u64
    }

    /// The blocks of `base`, and these.
    pub(crate) fn beside(&self, base: &Base) -> Base {
        base.with(&self.runs, &self.rows)
    }

    /// The blocks of `base`, and these blocks as far as they are in `shared`. All others are free for other use.
    pub(crate) fn delta_beside(&self, base: &Base, shared: &[Run]) -> Option<Base> {
        let (wide, runs) = (self.beside(base), self.early_of(shared).collect::<Vec<_>>());
        let mut rows = Vec::new();
        for run in &runs {
            rows.extend_from_slice(wide.hashes(run.first_block..run.stretch().end())?);
        }
        Some(base.with(&runs, &rows))
    }

    /// Adds the blocks that count to the `clean` blocks of `regions`. With `compared`, a base that has these blocks,
    /// adds only blocks with equal hashes.
    pub(crate) fn add_to(&self, regions: &[Region], clean: &mut [Vec<BlockRun>], compared: Option<&Base>) {
        for (region, clean) in regions.iter().zip(clean) {
            // Only the pages of watched regions show writes since then.
            let Some(Range { start, end }) = range_of(region) else { continue };
            let blocks = (end - start) as u64 / BLOCK_BYTES;
            let (mut all, mut old, mut block) = (Vec::with_capacity(clean.len()), clean.iter().peekable(), 0);
            while block < blocks {
                if let Some(lies) = old.next_if(|lies| lies.block <= block) {
                    add(&mut all, *lies);
                    block = block.max(lies.block + lies.count);
                    continue;
                }
                let end = old.peek().map_or(blocks, |lies| lies.block);
                for block in block..end {
                    let at = self.at.get(&(start + block as usize * BLOCK)).copied();
                    let is_same = |at: &u64| compared.is_none_or(|base| base.has_at(*at, region, block));
                    if let Some(at) = at.filter(is_same) {
                        add(&mut all, BlockRun { block, at, count: 1 });
                    }
                }
                block = end;
            }
            *clean = all;
        }
    }

    /// The early blocks in these runs, with their rows. Blocks of older runs are left out.
    pub(crate) fn blocks_of(&self, shared: &[Run]) -> Vec<Blocks> {
        self.early_of(shared).flat_map(|run| [run.stretch(), run.row_blocks()]).collect()
    }

    fn early_of(&self, shared: &[Run]) -> impl Iterator<Item = Run> {
        shared.iter().filter(|run| self.run_of(run.first_block).is_some()).copied()
    }

    /// The run with this block of the portion.
    fn run_of(&self, block: u64) -> Option<&Run> {
        let index = self.runs.partition_point(|early| early.first_block <= block).checked_sub(1)?;
        Some(&self.runs[index]).filter(|early| block < early.stretch().end())
    }
}

impl Base {
    /// Whether block `at` of the portion holds the bytes of block number `block` of `region`.
    fn has_at(&self, at: u64, region: &Region, block: u64) -> bool {
        let mut is_same = false;
        each_block(region, block..block + 1, |_, bytes| is_same = self.hash_at(at) == Some(&hash(bytes)[..]));
        is_same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capture::Regions,
        space::format::{HASH_BYTES, Manifest},
    };

    #[test]
    fn what_is_compared_counts_only_as_it_was() {
        let mut memory = vec![1_u8; 64 * BLOCK];
        let start = memory.as_ptr().addr();
        let mut regions = Regions::default();
        // SAFETY: the memory outlives the region.
        #[expect(unsafe_code, reason = "a region is memory")]
        regions.add(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
        let rows: Vec<u8> = memory.chunks(BLOCK).take(3).flat_map(hash).collect();
        let run = Run { first_block: 10, blocks: 3, hashes_at: 0, hashes_hash: hash(&rows) };
        let at = (0..3).map(|block| (start + block * BLOCK, 10 + block as u64)).collect();
        let early = SpeculativeBlocks::new(vec![run], rows, at);
        let wide = early.beside(&Base::default());
        // No page flag shows this write.
        memory[BLOCK + 5] = 2;
        let added = |compared: Option<&Base>| {
            let mut clean = [Vec::new()];
            early.add_to(regions.all(), &mut clean, compared);
            clean[0].iter().map(|lies: &BlockRun| (lies.block, lies.count)).collect::<Vec<_>>()
        };
        assert_eq!(added(None), [(0, 3)]);
        assert_eq!(added(Some(&wide)), [(0, 1), (2, 1)]);
    }

    /// Story: blocks and hashes that were saved early may directly follow those of the older revision. A root that
    /// referred to both as one run was refused, because neither had all of it.
    #[test]
    fn what_was_saved_early_is_told_from_what_it_lies_behind() {
        let blocks_a_row = BLOCK_BYTES / HASH_BYTES as u64;
        let rows = |blocks: u64| (0..blocks).flat_map(|block| hash(&block.to_le_bytes())).collect::<Vec<u8>>();
        let run = |first_block, blocks, row: u64| {
            let hashes_hash = hash(&rows(blocks));
            Run { first_block, blocks, hashes_at: row * BLOCK_BYTES, hashes_hash }
        };
        let manifest = Manifest { runs: vec![run(10, blocks_a_row, 900)], ..Manifest::default() };
        let base = Base::new(&manifest, rows(blocks_a_row)).unwrap();
        let behind = 10 + blocks_a_row;
        let early = SpeculativeBlocks::new(vec![run(behind, 3, 901)], rows(3), HashMap::new());
        let shared = early.beside(&base).runs_of([Blocks { first: 10, count: blocks_a_row + 3 }]).unwrap();
        assert_eq!(shared, [run(10, blocks_a_row, 900), run(behind, 3, 901)]);
        assert_eq!(early.blocks_of(&shared), [Blocks { first: behind, count: 3 }, Blocks { first: 901, count: 1 }]);
        let delta = early.delta_beside(&base, &shared).unwrap();
        assert_eq!((delta.blocks(), delta.hashes(behind..behind + 3)), (blocks_a_row + 3, Some(&rows(3)[..])));
    }
}
