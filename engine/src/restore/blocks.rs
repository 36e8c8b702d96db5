//! Reads parts of a shard: the requested bytes and a few beside them, for many small reads in a row.
//!
//! Invariant: no byte is handed out before the row of hashes of its run, and its block, are verified. Damage in one
//! block does not affect others. Memory stays below 1 MiB beside the manifest, however large the shard is.

use super::{
    hash_rows::{HashRows, PART_BLOCKS},
    pour::verify,
};
use crate::{
    error::{Error, Result},
    space::{
        Aligned, Checked, FrameReader, Portion,
        format::{BLOCK, BLOCK_BYTES, Extent, Frame, HASH_BYTES, Hash, Hashing, Manifest, Run, blocks_for},
    },
};

/// Number of blocks read together.
const STRETCH_BLOCKS: u64 = 64;
const STRETCH_BYTES: u64 = STRETCH_BLOCKS * BLOCK_BYTES;
const _: () = assert!(PART_BLOCKS.is_multiple_of(STRETCH_BLOCKS));
/// The number of stretches kept in memory. A program may read from two streams in turn, and across the end of a
/// stretch.
const STRETCHES: usize = 3;
const _: () = assert!(STRETCHES as u64 * STRETCH_BYTES + PART_BLOCKS * HASH_BYTES as u64 <= 1 << 20);

/// The blocks of a shard.
pub(crate) struct BlockReader {
    portion: Portion,
    runs: Vec<Run>,
    frames: Vec<Frame>,
    reader: FrameReader,
    rows: HashRows,
    /// The part of a row of hashes that was read last: index of the run, index of the part, hashes.
    last_row: Option<(usize, u64, Checked)>,
    /// Stretches that were read, the last used one first.
    stretches: Vec<Stretch>,
}

struct Stretch {
    /// The place of the stretch in the portion, and its length, in bytes.
    at: u64,
    bytes: u64,
    blocks: Aligned,
    /// The damaged blocks, counted from the first block of the stretch, with their errors.
    damage: Vec<(u64, Error)>,
}

impl Stretch {
    fn holds(&self, at: u64) -> bool {
        (self.at..self.at + self.bytes).contains(&at)
    }

    /// At most `most` bytes of the stretch, from offset `at` of the portion on. An error if one of their blocks is
    /// damaged.
    fn whole(&self, at: u64, most: u64) -> Result<&[u8]> {
        let from = at - self.at;
        let end = self.bytes.min(from.saturating_add(most));
        let blocks = from / BLOCK_BYTES..blocks_for(end);
        match self.damage.iter().find(|(block, _)| blocks.contains(block)) {
            Some((_, damage)) => Err(damage.clone()),
            None => Ok(&self.blocks[from as usize..end as usize]),
        }
    }
}

impl BlockReader {
    /// The blocks of the shard of a checked `manifest`.
    pub(crate) fn new(portion: Portion, manifest: &Manifest) -> BlockReader {
        let (runs, frames) = (manifest.runs.clone(), manifest.frames.clone());
        let rows = HashRows::new(runs.len());
        let (reader, stretches) = Default::default();
        BlockReader { portion, runs, frames, reader, rows, last_row: None, stretches }
    }

    /// Fills `into` with the bytes from offset `at` of the portion on.
    pub(crate) fn read(&mut self, mut at: u64, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            let stretch = self.stretch(at)?;
            let from = stretch.whole(at, into.len() as u64)?;
            let part = into.split_off_mut(..from.len()).unwrap_or_default();
            part.copy_from_slice(from);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// The hash of all bytes in `extents`.
    pub(crate) fn hash(&mut self, extents: &[Extent]) -> Result<Hash> {
        let mut all = Hashing::default();
        for extent in extents {
            if extent.is_zeros() {
                let mut left = extent.bytes;
                while left > 0 {
                    let part = left.min(BLOCK_BYTES);
                    all.add(&[0; BLOCK][..part as usize]);
                    left -= part;
                }
                continue;
            }
            let (mut at, end) = (extent.at, extent.at + extent.bytes);
            while at < end {
                let stretch = self.stretch(at)?;
                let part = stretch.whole(at, end - at)?;
                all.add(part);
                at += part.len() as u64;
            }
        }
        Ok(all.hash())
    }

    /// The hash of the block that begins at offset `at`; the block is not read.
    pub(crate) fn hash_of_block(&mut self, at: u64) -> Result<Hash> {
        let (index, run) = self.run_at(at)?;
        let block = at / BLOCK_BYTES - run.first_block;
        let row = self.row(index, &run, block / PART_BLOCKS)?;
        let mut hash = Hash::default();
        hash.copy_from_slice(&row[(block % PART_BLOCKS) as usize * HASH_BYTES..][..HASH_BYTES]);
        Ok(hash)
    }

    /// The stretch with the byte at offset `at`.
    fn stretch(&mut self, at: u64) -> Result<&Stretch> {
        // A damaged block is read again: its revision may have been removed meanwhile, or the block mended.
        self.stretches.retain(|stretch| stretch.damage.is_empty() || !stretch.holds(at));
        match self.stretches.iter().position(|stretch| stretch.holds(at)) {
            Some(index) => self.stretches[..=index].rotate_right(1),
            None => {
                let stretch = self.read_stretch(at)?;
                self.stretches.insert(0, stretch);
            }
        }
        debug_assert!(self.stretches.len() <= STRETCHES && self.stretches[0].holds(at));
        Ok(&self.stretches[0])
    }

    fn read_stretch(&mut self, at: u64) -> Result<Stretch> {
        let (index, run) = self.run_at(at)?;
        let first = (at / BLOCK_BYTES - run.first_block) / STRETCH_BLOCKS * STRETCH_BLOCKS;
        let count = (run.blocks - first).min(STRETCH_BLOCKS);
        let (at, bytes) = ((run.first_block + first) * BLOCK_BYTES, count * BLOCK_BYTES);
        let mut blocks = self.buffer()?;
        self.reader.read(&self.portion, &self.frames, at, &mut blocks[..bytes as usize])?;
        let row = self.row(index, &run, first / PART_BLOCKS)?;
        let hashes = row[(first % PART_BLOCKS) as usize * HASH_BYTES..][..count as usize * HASH_BYTES].to_vec();
        let each = blocks[..bytes as usize].chunks_exact(BLOCK).zip(hashes.chunks_exact(HASH_BYTES));
        let damage = |(index, (block, hash))| {
            let verified = verify(&self.portion, at + index * BLOCK_BYTES, block, hash);
            verified.err().map(|damage| (index, damage))
        };
        let damage = (0..).zip(each).filter_map(damage).collect();
        Ok(Stretch { at, bytes, blocks, damage })
    }

    /// The run with the byte at offset `at`, and its index.
    fn run_at(&self, at: u64) -> Result<(usize, Run)> {
        let after = self.runs.partition_point(|run| run.first_block * BLOCK_BYTES <= at);
        let holds = |index: &usize| at / BLOCK_BYTES - self.runs[*index].first_block < self.runs[*index].blocks;
        let index = after.checked_sub(1).filter(holds).ok_or_else(|| outside(at))?;
        Ok((index, self.runs[index]))
    }

    /// Part `part` of the row of `run`, which has this index.
    fn row(&mut self, index: usize, run: &Run, part: u64) -> Result<&Checked> {
        let row = match self.last_row.take() {
            Some(last) if (last.0, last.1) == (index, part) => last,
            _ => (index, part, self.rows.part(&self.portion, index, run, part)?),
        };
        Ok(&self.last_row.insert(row).2)
    }

    /// A buffer for the next stretch. Once enough stretches are kept, the buffer of the least recently used one.
    fn buffer(&mut self) -> Result<Aligned> {
        let oldest = if self.stretches.len() < STRETCHES { None } else { self.stretches.pop() };
        match oldest {
            Some(stretch) => Ok(stretch.blocks),
            None => Aligned::zeroed(STRETCH_BYTES).ok_or_else(|| self.portion.out_of_memory(STRETCH_BYTES)),
        }
    }
}

fn outside(at: u64) -> Error {
    Error::Internal { what: format!("offset {at} of a portion is outside all runs") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore::in_memory::{self, AT, MemoryFile};
    use std::sync::{Arc, atomic::Ordering};

    fn blocks(memory: &Arc<MemoryFile>, runs: &[Run]) -> BlockReader {
        BlockReader::new(in_memory::portion(memory), &Manifest { runs: runs.to_vec(), ..Manifest::default() })
    }

    #[test]
    fn whatever_is_asked_for_is_what_is_there() {
        let mut random = fastrand::Rng::with_seed(4);
        // A run of one block, runs that end inside a stretch, and a run with a row of several parts.
        let sizes = [1, 3, STRETCH_BLOCKS, STRETCH_BLOCKS + 1, 64 * STRETCH_BLOCKS + 2 * STRETCH_BLOCKS + 5, 2];
        let (memory, runs) = MemoryFile::of(&sizes, &mut random);
        let memory = Arc::new(memory);
        let mut blocks = blocks(&memory, &runs);
        let mut into = vec![0; 3 << 20];
        for _ in 0..2000 {
            let run = runs[random.usize(..runs.len())];
            let (from, length) = (run.first_block * BLOCK_BYTES, run.blocks * BLOCK_BYTES);
            let most = [1, 9, 5000, 700_000, into.len() as u64][random.usize(..5)];
            let offset = random.u64(..length);
            let bytes = random.u64(..=most.min(length - offset)) as usize;
            blocks.read(from + offset, &mut into[..bytes]).unwrap();
            assert!(into[..bytes] == memory.bytes[(AT + from + offset) as usize..][..bytes], "{run:?}, {offset}");
            assert!(blocks.stretches.len() <= STRETCHES);
        }
    }

    #[test]
    fn small_reads_in_turn_read_the_medium_once() {
        let mut random = fastrand::Rng::with_seed(5);
        let (memory, runs) = MemoryFile::of(&[300, 300], &mut random);
        let memory = Arc::new(memory);
        let mut blocks = blocks(&memory, &runs);
        let mut into = [0; 100];
        for step in 0..300 * BLOCK_BYTES / 100 {
            for run in &runs {
                blocks.read(run.first_block * BLOCK_BYTES + step * 100, &mut into).unwrap();
            }
        }
        let (read, data) = (memory.read.load(Ordering::Relaxed), 600 * BLOCK_BYTES);
        // Besides the data, the rows; their parts are dropped in between.
        assert!(read < data + data / 8, "{read} bytes were read for {data}");
    }

    #[test]
    fn no_byte_of_a_changed_block_or_row_is_handed_out() {
        let mut random = fastrand::Rng::with_seed(6);
        let (whole, runs) = MemoryFile::of(&[65 * STRETCH_BLOCKS], &mut random);
        let run = runs[0];
        let block_of = |block: u64| AT + (run.first_block + block) * BLOCK_BYTES;
        let cases = [
            (block_of(70), format!("block {}", run.first_block + 70)),
            (block_of(70) + BLOCK_BYTES - 1, format!("block {}", run.first_block + 70)),
            (AT + run.hashes_at, format!("hashes of the blocks from {}", run.first_block)),
            (AT + run.hashes_at + run.blocks * 16 - 1, format!("hashes of the blocks from {}", run.first_block)),
        ];
        for (at, says) in cases {
            let mut bytes = whole.bytes.clone();
            bytes[at as usize] ^= 1;
            let mut blocks = blocks(&Arc::new(MemoryFile { bytes, ..MemoryFile::default() }), &runs);
            let mut into = [0; 10];
            for _ in 0..2 {
                // The last byte of the block before, and bytes of the changed one.
                let error = blocks.read((run.first_block + 70) * BLOCK_BYTES - 1, &mut into).unwrap_err();
                assert!(matches!(&error, Error::Damaged { .. }) && error.to_string().contains(&says), "{error}");
                assert_eq!(into, [0; 10]);
            }
            // Undamaged bytes can be read, even if they were read together with damaged ones.
            for block in [0, 64, 69, 71, 100, 127] {
                let other = blocks.read((run.first_block + block) * BLOCK_BYTES, &mut into);
                assert_eq!(other.is_ok(), says.starts_with("block"), "{block}: {other:?}");
                let expected = &whole.bytes[block_of(block) as usize..][..10];
                assert!(other.is_err() || into == expected, "{block}");
                into.fill(0);
            }
        }
    }

    #[test]
    fn what_lies_in_no_run_is_refused() {
        let (memory, runs) = MemoryFile::of(&[3, 3], &mut fastrand::Rng::with_seed(7));
        let mut blocks = blocks(&Arc::new(memory), &runs);
        for at in [0, runs[0].first_block * BLOCK_BYTES - 1, (runs[0].first_block + 3) * BLOCK_BYTES, u64::MAX] {
            assert!(matches!(blocks.read(at, &mut [0; 1]), Err(Error::Internal { .. })), "{at}");
        }
    }
}
