//! Reading a shard here and there: what is asked for, and a little of what lies beside it, for reads of a
//! few bytes one after another.
//!
//! What must hold: no byte is handed out before the row of hashes of its run, and its block, were verified.
//! Memory stays below 1 MiB beside the manifest, however large the shard is.

use super::pour::{row_of, verify};
use crate::{
    error::{Error, Result},
    space::{
        Aligned, Checked, Portion,
        format::{BLOCK_BYTES, Extent, HASH_BYTES, Hash, Hashing, Run},
    },
};

/// Blocks that are read and verified together.
const STRETCH_BLOCKS: u64 = 64;
const STRETCH_BYTES: u64 = STRETCH_BLOCKS * BLOCK_BYTES;
/// Stretches that are kept: a program may read from two streams in turn, across the end of a stretch too.
const STRETCHES: usize = 3;
/// So much of a row of hashes is kept: that of 64 stretches.
const ROW_PART_BYTES: u64 = 64 * STRETCH_BLOCKS * HASH_BYTES as u64;

/// The blocks of a shard.
pub(crate) struct Blocks {
    portion: Portion,
    runs: Vec<Run>,
    rows: Rows,
    /// Verified, the latest first.
    stretches: Vec<Stretch>,
}

/// A row has one hash, for all of it. The first time, all of it is read; from then on its parts are
/// compared with what they were.
struct Rows {
    /// For each run whose row was verified, the hash of each part of the row.
    parts: Vec<Option<Vec<Hash>>>,
    /// What was read last: of which run, which part.
    last: Option<(usize, u64, Checked)>,
}

struct Stretch {
    /// Offset in the portion, and length.
    at: u64,
    bytes: u64,
    blocks: Aligned,
}

impl Blocks {
    /// Those of a manifest that was checked.
    pub(crate) fn new(portion: Portion, runs: Vec<Run>) -> Blocks {
        let rows = Rows { parts: vec![None; runs.len()], last: None };
        Blocks { portion, runs, rows, stretches: Vec::new() }
    }

    /// Fills `into` with the bytes from offset `at` of the portion on.
    pub(crate) fn read(&mut self, mut at: u64, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            let stretch = self.stretch(at)?;
            let from = &stretch.blocks[(at - stretch.at) as usize..stretch.bytes as usize];
            let part = into.split_off_mut(..into.len().min(from.len())).unwrap_or_default();
            part.copy_from_slice(&from[..part.len()]);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// The hash of all bytes in `extents`.
    pub(crate) fn hash(&mut self, extents: &[Extent]) -> Result<Hash> {
        let mut all = Hashing::default();
        for extent in extents {
            let (mut at, end) = (extent.at, extent.at + extent.bytes);
            while at < end {
                let stretch = self.stretch(at)?;
                let from = &stretch.blocks[(at - stretch.at) as usize..stretch.bytes as usize];
                let part = &from[..from.len().min((end - at) as usize)];
                all.add(part);
                at += part.len() as u64;
            }
        }
        Ok(all.hash())
    }

    /// The stretch that holds the byte at offset `at`.
    fn stretch(&mut self, at: u64) -> Result<&Stretch> {
        match self.stretches.iter().position(|stretch| (stretch.at..stretch.at + stretch.bytes).contains(&at)) {
            Some(index) => self.stretches[..=index].rotate_right(1),
            None => {
                let stretch = self.read_stretch(at)?;
                self.stretches.insert(0, stretch);
            }
        }
        Ok(&self.stretches[0])
    }

    fn read_stretch(&mut self, at: u64) -> Result<Stretch> {
        let after = self.runs.partition_point(|run| run.first_block * BLOCK_BYTES <= at);
        let holds = |index: &usize| at / BLOCK_BYTES - self.runs[*index].first_block < self.runs[*index].blocks;
        let index = after.checked_sub(1).filter(holds).ok_or_else(|| outside(at))?;
        let run = self.runs[index];
        let first = (at / BLOCK_BYTES - run.first_block) / STRETCH_BLOCKS * STRETCH_BLOCKS;
        let count = (run.blocks - first).min(STRETCH_BLOCKS);
        let (at, bytes) = ((run.first_block + first) * BLOCK_BYTES, count * BLOCK_BYTES);
        let mut blocks = self.buffer()?;
        self.portion.read_into(at, &mut blocks[..bytes as usize])?;
        let hashes_at = first * HASH_BYTES as u64;
        let hashes = self.rows.part(&self.portion, index, &run, hashes_at / ROW_PART_BYTES)?;
        let hashes = &hashes[(hashes_at % ROW_PART_BYTES) as usize..][..count as usize * HASH_BYTES];
        verify(&self.portion, at, &blocks[..bytes as usize], hashes)?;
        Ok(Stretch { at, bytes, blocks })
    }

    /// That of the stretch that was not used for longest, once there are enough.
    fn buffer(&mut self) -> Result<Aligned> {
        let oldest = if self.stretches.len() < STRETCHES { None } else { self.stretches.pop() };
        match oldest {
            Some(stretch) => Ok(stretch.blocks),
            None => Aligned::zeroed(STRETCH_BYTES).ok_or_else(|| self.portion.out_of_memory(STRETCH_BYTES)),
        }
    }
}

impl Rows {
    /// A part of the row of `run`, the one of this index.
    fn part(&mut self, portion: &Portion, index: usize, run: &Run, part: u64) -> Result<&[u8]> {
        let last = match self.last.take() {
            Some(last) if (last.0, last.1) == (index, part) => last,
            _ => (index, part, self.read(portion, index, run, part)?),
        };
        Ok(&self.last.insert(last).2)
    }

    fn read(&mut self, portion: &Portion, index: usize, run: &Run, part: u64) -> Result<Checked> {
        let (at, bytes, of) = (run.hashes_at, run.blocks * HASH_BYTES as u64, row_of(run));
        let parts = match &mut self.parts[index] {
            Some(parts) => parts,
            none => none.insert(portion.check_in_parts(at, bytes, ROW_PART_BYTES, &run.hashes_hash, &of)?),
        };
        let from = part * ROW_PART_BYTES;
        portion.read_checked(at + from, ROW_PART_BYTES.min(bytes - from), &parts[part as usize], &of)
    }
}

fn outside(at: u64) -> Error {
    Error::Internal { what: format!("offset {at} of a portion lies in no run") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::File,
        space::{
            LayoutFile, data_from,
            format::{BLOCK, Header, PortionPlace, hash, hash_blocks},
        },
    };
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
    };

    /// Counts the bytes that are read from it.
    #[derive(Debug)]
    struct Memory {
        bytes: Vec<u8>,
        read: AtomicU64,
    }

    impl File for Memory {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let from = &self.bytes[(offset as usize).min(self.bytes.len())..];
            let bytes = from.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&from[..bytes]);
            self.read.fetch_add(bytes as u64, Ordering::Relaxed);
            Ok(bytes)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("nothing is written")
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn bytes(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
    }

    const SLOT_STRIDE: u64 = 64 << 10;
    /// The portion begins here in its file.
    const AT: u64 = 5 * BLOCK_BYTES;

    /// A portion of runs of so many blocks, random bytes all over, each run's row of hashes behind all data
    /// and on no block's border.
    fn portion(blocks: &[u64], random: &mut fastrand::Rng) -> (Memory, Vec<Run>) {
        let mut first_block = data_from(SLOT_STRIDE) / BLOCK_BYTES;
        let all: u64 = blocks.iter().sum();
        let end = (first_block + all + blocks.len() as u64) * BLOCK_BYTES;
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take((AT + end) as usize).collect();
        let mut runs = Vec::new();
        for blocks in blocks {
            // One block is left between runs.
            first_block += 1;
            let data = (AT + first_block * BLOCK_BYTES) as usize..(AT + (first_block + blocks) * BLOCK_BYTES) as usize;
            let mut row = vec![0; *blocks as usize * HASH_BYTES];
            hash_blocks(&bytes[data], &mut row);
            bytes.extend_from_slice(&row[..5]);
            let hashes_at = bytes.len() as u64 - AT;
            bytes.extend_from_slice(&row);
            runs.push(Run { first_block, blocks: *blocks, hashes_at, hashes_hash: hash(&row) });
            first_block += blocks;
        }
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        (Memory { bytes, read: AtomicU64::new(0) }, runs)
    }

    fn blocks(memory: &Arc<Memory>, runs: &[Run]) -> Blocks {
        let place = PortionPlace { rank: 0, at: AT, bytes: memory.bytes.len() as u64 - AT };
        let header = Header {
            layout_id: [7; 16],
            layout_number: 1,
            ranks: 1,
            created_unix_ns: 0,
            slot_stride: SLOT_STRIDE,
            file_bytes: memory.bytes.len() as u64,
            holds_at: 0,
            holds_bytes: 0,
            portions: vec![place],
        };
        let (file, bytes) = (memory.clone(), header.file_bytes);
        let layout = LayoutFile { name: "file".to_owned(), path: "file".into(), header, file, bytes };
        Blocks::new(Portion::new(&layout, place), runs.to_vec())
    }

    #[test]
    fn whatever_is_asked_for_is_what_is_there() {
        let mut random = fastrand::Rng::with_seed(4);
        // One block, stretches that are cut short, more than one part of a row.
        let sizes = [1, 3, STRETCH_BLOCKS, STRETCH_BLOCKS + 1, 64 * STRETCH_BLOCKS + 2 * STRETCH_BLOCKS + 5, 2];
        let (memory, runs) = portion(&sizes, &mut random);
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
        let (memory, runs) = portion(&[300, 300], &mut random);
        let memory = Arc::new(memory);
        let mut blocks = blocks(&memory, &runs);
        let mut into = [0; 100];
        for step in 0..300 * BLOCK_BYTES / 100 {
            for run in &runs {
                blocks.read(run.first_block * BLOCK_BYTES + step * 100, &mut into).unwrap();
            }
        }
        let (read, data) = (memory.read.load(Ordering::Relaxed), 600 * BLOCK_BYTES);
        // Beside the data the rows, whose parts are let go in between.
        assert!(read < data + data / 8, "{read} bytes were read for {data}");
    }

    #[test]
    fn no_byte_of_a_changed_block_or_row_is_handed_out() {
        let mut random = fastrand::Rng::with_seed(6);
        let (whole, runs) = portion(&[65 * STRETCH_BLOCKS], &mut random);
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
            let mut blocks = blocks(&Arc::new(Memory { bytes, read: AtomicU64::new(0) }), &runs);
            let mut into = [0; 10];
            for _ in 0..2 {
                // In the stretch of the changed block, and not in that block.
                let error = blocks.read((run.first_block + 100) * BLOCK_BYTES, &mut into).unwrap_err();
                assert!(matches!(&error, Error::Damaged { .. }) && error.to_string().contains(&says), "{error}");
                assert_eq!(into, [0; 10]);
            }
            // What is not in doubt can be read.
            let other = blocks.read(run.first_block * BLOCK_BYTES, &mut into);
            assert_eq!(other.is_ok(), says.starts_with("block"), "{other:?}");
        }
    }

    #[test]
    fn what_lies_in_no_run_is_refused() {
        let (memory, runs) = portion(&[3, 3], &mut fastrand::Rng::with_seed(7));
        let mut blocks = blocks(&Arc::new(memory), &runs);
        for at in [0, runs[0].first_block * BLOCK_BYTES - 1, (runs[0].first_block + 3) * BLOCK_BYTES, u64::MAX] {
            assert!(matches!(blocks.read(at, &mut [0; 1]), Err(Error::Internal { .. })), "{at}");
        }
    }
}
