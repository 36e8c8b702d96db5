//! The blocks of a revision in a portion: the places of its items' blocks, and their hashes. Blocks of zeros have no
//! place.

use super::{
    block_runs::{BlockRun, ZEROS, runs_of, stored},
    index::{Index, is_small},
};
use crate::space::{
    format::{BLOCK, HASH_BYTES, Hash, Manifest, Run, hash},
    free::Blocks,
};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{LazyLock, OnceLock},
};

/// The hash of a block of zeros.
static ZERO_HASH: LazyLock<Hash> = LazyLock::new(|| hash(&[0; BLOCK]));

/// The default is a base without blocks.
#[derive(Debug, Default)]
pub(crate) struct Base {
    /// By item name, the places of its whole blocks, in order.
    items: HashMap<String, Vec<BlockRun>>,
    runs: Vec<Run>,
    /// For each run, the number of blocks in the runs before it.
    before: Vec<u64>,
    /// The rows of hashes of all runs, one behind the other.
    rows: Vec<u8>,
    /// The blocks of those runs that belong to no item.
    early: Vec<Blocks>,
    index: OnceLock<Option<Index>>,
}

impl Base {
    /// The base of a revision with this manifest. `rows`: the rows of hashes of its runs, one behind the other; `None`
    /// if there are too few or too many.
    pub(crate) fn new(manifest: &Manifest, rows: Vec<u8>) -> Option<Base> {
        let (mut end, mut before) = (0, Vec::with_capacity(manifest.runs.len()));
        for run in &manifest.runs {
            before.push(end);
            end += run.blocks;
        }
        let is_whole = rows.len() as u64 == end * HASH_BYTES as u64;
        let items = manifest.items.iter().map(|item| (item.name.clone(), runs_of(item))).collect();
        let (early, index) = Default::default();
        is_whole.then(|| Base { items, runs: manifest.runs.clone(), before, rows, early, index })
    }

    /// This base with further blocks of the portion that belong to no item. `runs` ascend and are new to this base;
    /// `rows` are their rows of hashes.
    pub(super) fn with(&self, runs: &[Run], rows: &[u8]) -> Base {
        let mut all: Vec<(Run, &[u8])> = Vec::with_capacity(self.runs.len() + runs.len());
        for (runs, mut rows, are_own) in [(&self.runs[..], &self.rows[..], true), (runs, rows, false)] {
            for run in runs {
                let (row, rest) = rows.split_at(run.blocks as usize * HASH_BYTES);
                // No manifest refers to these rows yet, so their hash is not known.
                let hashes_hash = if are_own { run.hashes_hash } else { hash(row) };
                all.push((Run { hashes_hash, ..*run }, row));
                rows = rest;
            }
        }
        all.sort_unstable_by_key(|(run, _)| run.first_block);
        let (mut end, mut before, mut joined) = (0, Vec::with_capacity(all.len()), Vec::new());
        for (run, row) in &all {
            before.push(end);
            end += run.blocks;
            joined.extend_from_slice(row);
        }
        let early = self.early.iter().copied().chain(runs.iter().map(Run::stretch)).collect();
        let runs = all.into_iter().map(|(run, _)| run).collect();
        Base { items: self.items.clone(), runs, before, rows: joined, early, index: OnceLock::new() }
    }

    /// The index of its items, if they are in many parts. The first call makes it; call it when there is time.
    pub(super) fn index(&self) -> Option<&Index> {
        self.index.get_or_init(|| Index::of(&self.items)).as_ref()
    }

    /// Makes the index, if it is worthwhile.
    pub(crate) fn make_index(&self) {
        self.index();
    }

    /// Whether `make_index` takes long.
    pub(crate) fn takes_long(&self) -> bool {
        !is_small(self.blocks(), self.items.len())
    }

    /// The number of runs of its blocks.
    pub(super) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// The number of blocks of the revision.
    pub(super) fn blocks(&self) -> u64 {
        (self.rows.len() / HASH_BYTES) as u64
    }

    /// Blocks that belong to no item, because no revision has them yet.
    pub(super) fn early(&self) -> &[Blocks] {
        &self.early
    }

    /// The places of the whole blocks of the item `name`, in order.
    pub(super) fn lies(&self, name: &str) -> Option<&[BlockRun]> {
        self.items.get(name).map(|lies| &lies[..])
    }

    /// The same without blocks of zeros.
    pub(super) fn stored(&self, name: &str) -> Vec<BlockRun> {
        stored(self.lies(name).unwrap_or_default())
    }

    /// The hash of the block `at`, a place as in `BlockRun`; `None` if it is outside all runs and not zeros.
    pub(super) fn hash_at(&self, at: u64) -> Option<&[u8]> {
        if at >= ZEROS { Some(&ZERO_HASH[..]) } else { self.hashes(at..at + 1) }
    }

    /// The hashes of these blocks of the portion; `None` if some are outside its runs.
    pub(crate) fn hashes(&self, blocks: Range<u64>) -> Option<&[u8]> {
        let (first, last) = (self.number(blocks.start)?, self.number(blocks.end.checked_sub(1)?)?);
        // The rows of adjacent runs are adjacent here.
        let is_stretch = last.checked_sub(first) == Some(blocks.end - 1 - blocks.start);
        is_stretch.then(|| &self.rows[first as usize * HASH_BYTES..(last as usize + 1) * HASH_BYTES])
    }

    /// The number of a block of the portion among the base's blocks; `None` if it is outside its runs.
    pub(crate) fn number(&self, block: u64) -> Option<u64> {
        let index = self.runs.partition_point(|run| run.first_block <= block).checked_sub(1)?;
        let inside = block - self.runs[index].first_block;
        (inside < self.runs[index].blocks).then(|| self.before[index] + inside)
    }

    /// The parts of its runs inside these ascending stretches, with the hashes of their rows; `None` if it lacks one of
    /// their blocks. Each part is of one run, even if the next run is adjacent: one may have been saved early, the
    /// other not.
    pub(super) fn runs_of(&self, stretches: impl IntoIterator<Item = Blocks>) -> Option<Vec<Run>> {
        let (mut parts, mut index) = (Vec::new(), 0);
        for Blocks { mut first, count } in stretches {
            let end = first + count;
            while first < end {
                while self.runs.get(index)?.stretch().end() <= first {
                    index += 1;
                }
                let run = &self.runs[index];
                let inside = first.checked_sub(run.first_block)?;
                let blocks = (end - first).min(run.blocks - inside);
                parts.push(self.part(index, inside, blocks));
                first += blocks;
            }
        }
        Some(parts)
    }

    /// Part of run number `index`, from its block number `inside` on, with the hash of its row, which is known for a
    /// whole run.
    fn part(&self, index: usize, inside: u64, blocks: u64) -> Run {
        let run = self.runs[index];
        if blocks == run.blocks {
            return run;
        }
        let row = row_bytes(self.before[index] + inside) as usize;
        let hashes_hash = hash(&self.rows[row..row + row_bytes(blocks) as usize]);
        let (first_block, hashes_at) = (run.first_block + inside, run.hashes_at + row_bytes(inside));
        Run { first_block, blocks, hashes_at, hashes_hash }
    }
}

fn row_bytes(blocks: u64) -> u64 {
    blocks * HASH_BYTES as u64
}
