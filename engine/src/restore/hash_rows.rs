//! Rows of hashes: a row has the hashes of all blocks of a run, and a hash of its own.
//!
//! Invariant: no hash of a row is used before the whole row was verified once, nor if the row has changed since. A
//! verified row is read in parts, so reading few blocks reads few hashes.

use crate::{
    error::Result,
    space::{
        Checked, Portion,
        format::{HASH_BYTES, Hash, Run, hash},
    },
};
use std::ops::Range;

/// The number of blocks of one part.
pub(super) const PART_BLOCKS: u64 = 4096;
const PART_BYTES: u64 = PART_BLOCKS * HASH_BYTES as u64;

/// Rows with gaps up to this size are read together, up to a limit of bytes at once.
const APART_BYTES: u64 = 16 << 10;
const TOGETHER_BYTES: u64 = 4 << 20;

/// The rows of the runs of one shard.
pub(crate) struct HashRows {
    /// For each run with a verified row, the hash of each part of the row.
    parts: Vec<Option<Vec<Hash>>>,
}

/// Hashes of some blocks of a run, with the numbers of the blocks in the portion.
pub(super) struct BlockHashes {
    pub(super) blocks: Range<u64>,
    pub(super) hashes: Checked,
}

impl HashRows {
    pub(crate) fn new(runs: usize) -> HashRows {
        HashRows { parts: vec![None; runs] }
    }

    /// Part `part` of the row of `run`, the shard's run number `index`. The first call for a run reads its whole row,
    /// part by part.
    pub(super) fn part(&mut self, portion: &Portion, index: usize, run: &Run, part: u64) -> Result<Checked> {
        let (at, bytes, of) = (run.hashes_at, row_bytes(run), row_of(run));
        let parts = match &mut self.parts[index] {
            Some(parts) => parts,
            none => none.insert(portion.check_in_parts(at, bytes, PART_BYTES, &run.hashes_hash, &of)?),
        };
        let from = part * PART_BYTES;
        portion.read_checked(at + from, PART_BYTES.min(bytes - from), &parts[part as usize], &of)
    }

    /// Reads the unread rows of the runs with these indices together: rows of many runs are adjacent.
    pub(super) fn first(
        &mut self,
        portion: &Portion,
        runs: &[Run],
        indices: &[usize],
    ) -> Result<Vec<(usize, BlockHashes)>> {
        let unread: Vec<usize> = indices.iter().copied().filter(|index| self.parts[*index].is_none()).collect();
        let rows = rows_of(portion, &unread.iter().map(|index| runs[*index]).collect::<Vec<_>>())?;
        let first = unread.into_iter().zip(rows).map(|(index, row)| {
            let run = runs[index];
            self.parts[index] = Some(row.chunks(PART_BYTES as usize).map(hash).collect());
            (index, BlockHashes { blocks: run.first_block..run.first_block + run.blocks, hashes: row })
        });
        Ok(first.collect())
    }

    /// The hashes of the `wanted` blocks of `run`, ascending, and possibly of others.
    pub(super) fn of(
        &mut self,
        portion: &Portion,
        index: usize,
        run: &Run,
        wanted: &[Range<u64>],
    ) -> Result<Vec<BlockHashes>> {
        let end = run.first_block + run.blocks;
        let part_of = |block: u64| (block - run.first_block) / PART_BLOCKS;
        let mut parts: Vec<u64> =
            wanted.iter().flat_map(|range| part_of(range.start)..=part_of(range.end - 1)).collect();
        parts.dedup();
        let read = |part: u64| {
            let first = run.first_block + part * PART_BLOCKS;
            let blocks = first..(first + PART_BLOCKS).min(end);
            Ok(BlockHashes { blocks, hashes: self.part(portion, index, run, part)? })
        };
        parts.into_iter().map(read).collect()
    }
}

/// The rows of `runs`, verified, in their order. Adjacent rows are read together.
pub(crate) fn rows_of(portion: &Portion, runs: &[Run]) -> Result<Vec<Checked>> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|index| runs[*index].hashes_at);
    let mut rows: Vec<Option<Checked>> = (0..runs.len()).map(|_| None).collect();
    let mut rest = &order[..];
    while let Some(first) = rest.first() {
        let (from, mut end) = (runs[*first].hashes_at, runs[*first].row().end);
        let mut count = 1;
        while let Some(row) = rest.get(count).map(|index| runs[*index].row())
            && row.start >= end
            && row.start - end <= APART_BYTES
            && row.end - from <= TOGETHER_BYTES
        {
            (count, end) = (count + 1, row.end);
        }
        let (together, others) = rest.split_at(count);
        let parts: Vec<_> = together.iter().map(|index| (runs[*index].row(), runs[*index].hashes_hash)).collect();
        let read = portion.read_checked_together(&parts, |part| row_of(&runs[together[part]]));
        let alone = |index: &usize| {
            let run = &runs[*index];
            portion.read_checked(run.hashes_at, row_bytes(run), &run.hashes_hash, &row_of(run))
        };
        // The bytes between the rows are not needed and may be unreadable, so each row is read alone.
        let read = read.or_else(|_| together.iter().map(alone).collect::<Result<Vec<_>>>())?;
        together.iter().zip(read).for_each(|(index, row)| rows[*index] = Some(row));
        rest = others;
    }
    Ok(rows.into_iter().flatten().collect())
}

/// The name of a run's row of hashes in messages.
fn row_of(run: &Run) -> String {
    format!("hashes of the blocks from {}", run.first_block)
}

fn row_bytes(run: &Run) -> u64 {
    run.blocks * HASH_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::Error,
        restore::{
            in_memory::{self, AT, MemoryFile},
            pour::pour_blocks,
        },
        space::format::{BLOCK_BYTES, Manifest},
    };
    use std::{
        collections::BTreeSet,
        slice,
        sync::{Arc, Mutex, atomic::Ordering},
    };

    /// The blocks of `wanted`, verified.
    fn poured(memory: &Arc<MemoryFile>, runs: &[Run], rows: &mut HashRows, wanted: &[Range<u64>]) -> Result<Vec<u8>> {
        let found = Mutex::new(vec![0; memory.bytes.len()]);
        let manifest = Manifest { runs: runs.to_vec(), ..Manifest::default() };
        pour_blocks(&in_memory::portion(memory), &manifest, rows, wanted, &|at, bytes| {
            found.lock().unwrap()[(AT + at) as usize..][..bytes.len()].copy_from_slice(bytes);
        })?;
        Ok(found.into_inner().unwrap())
    }

    #[test]
    fn what_is_wanted_is_poured_and_the_second_time_few_hashes_are_read() {
        let mut random = fastrand::Rng::with_seed(8);
        let (memory, runs) = MemoryFile::of(&[1, 2 * PART_BLOCKS + 5, PART_BLOCKS, 7], &mut random);
        let (memory, mut rows) = (Arc::new(memory), HashRows::new(runs.len()));
        let firsts: Vec<Range<u64>> = runs.iter().map(|run| run.first_block..run.first_block + 1).collect();
        poured(&memory, &runs, &mut rows, &firsts).unwrap();
        for _ in 0..10 {
            let mut wanted: Vec<Range<u64>> = Vec::new();
            for run in &runs {
                let mut from = run.first_block;
                while wanted.len() < 8 && from < run.first_block + run.blocks && random.bool() {
                    let left = run.first_block + run.blocks - from;
                    let first = from + random.u64(..left);
                    let last = first + random.u64(1..=(run.first_block + run.blocks - first).min(PART_BLOCKS + 2));
                    wanted.push(first..last);
                    from = last + 1;
                }
            }
            let before = memory.read.load(Ordering::Relaxed);
            let found = poured(&memory, &runs, &mut rows, &wanted).unwrap();
            let mut expected = vec![0; memory.bytes.len()];
            for range in &wanted {
                let bytes = (AT + range.start * BLOCK_BYTES) as usize..(AT + range.end * BLOCK_BYTES) as usize;
                expected[bytes.clone()].copy_from_slice(&memory.bytes[bytes]);
            }
            assert!(found == expected, "{wanted:?}");
            let data: u64 = wanted.iter().map(|range| range.end - range.start).sum();
            let run_of = |block: u64| runs.iter().rfind(|run| run.first_block <= block).unwrap().first_block;
            let part_of = |block: u64| (run_of(block), (block - run_of(block)) / PART_BLOCKS);
            let parts: BTreeSet<(u64, u64)> = wanted.iter().cloned().flatten().map(part_of).collect();
            let read = memory.read.load(Ordering::Relaxed) - before;
            // A part need not begin on a block.
            let most = data * BLOCK_BYTES + parts.len() as u64 * (PART_BYTES + 2 * BLOCK_BYTES);
            assert!(read <= most, "{read} bytes were read for {data} blocks in {wanted:?}");
        }
    }

    /// Story: damage must be found even if the row was undamaged when it was first read.
    #[test]
    fn a_row_that_changed_is_refused() {
        let (whole, runs) = MemoryFile::of(&[3 * PART_BLOCKS], &mut fastrand::Rng::with_seed(9));
        let mut bytes = whole.bytes.clone();
        bytes[(AT + runs[0].hashes_at + PART_BYTES + 5) as usize] ^= 1;
        let (whole, changed) = (Arc::new(whole), Arc::new(MemoryFile { bytes, ..MemoryFile::default() }));
        let first = runs[0].first_block;
        let (in_first, in_second) = (first..first + 1, first + PART_BLOCKS..first + PART_BLOCKS + 1);
        let (in_first, in_second) = (slice::from_ref(&in_first), slice::from_ref(&in_second));

        let refused = |rows: &mut HashRows, wanted: &[Range<u64>]| match poured(&changed, &runs, rows, wanted) {
            Err(Error::Damaged { what }) => assert!(what[0].contains("hashes of the blocks"), "{what:?}"),
            other => panic!("{:?}", other.map(drop)),
        };
        let mut rows = HashRows::new(1);
        refused(&mut rows, in_first);
        poured(&whole, &runs, &mut rows, in_first).unwrap();
        poured(&changed, &runs, &mut rows, in_first).unwrap();
        refused(&mut rows, in_second);
    }
}
