//! For tests: a portion in a file in memory.

use crate::{
    device::{File, FileStatus, Known, Source},
    space::{
        LayoutFile, Portion, data_from,
        format::{BLOCK, BLOCK_BYTES, HASH_BYTES, Header, PortionPlace, Run, hash, hash_blocks},
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
#[derive(Debug, Default)]
pub(super) struct MemoryFile {
    pub(super) bytes: Vec<u8>,
    pub(super) read: AtomicU64,
}

impl File for MemoryFile {
    fn read(&self, buffer: &mut [u8], offset: u64, _: Source) -> io::Result<usize> {
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

    fn status(&self, _: Known) -> io::Result<FileStatus> {
        Ok(FileStatus::of(self.bytes.len() as u64))
    }
}

const SLOT_STRIDE: u64 = 64 << 10;
/// The place of the portion in its file.
pub(super) const AT: u64 = 5 * BLOCK_BYTES;

impl MemoryFile {
    /// A portion with runs of these numbers of blocks and random bytes. The rows of hashes are behind all data, and do
    /// not begin on a block.
    pub(super) fn of(blocks: &[u64], random: &mut fastrand::Rng) -> (MemoryFile, Vec<Run>) {
        let mut first_block = data_from(SLOT_STRIDE) / BLOCK_BYTES;
        let all: u64 = blocks.iter().sum();
        let end = (first_block + all + blocks.len() as u64) * BLOCK_BYTES;
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take((AT + end) as usize).collect();
        let mut runs = Vec::new();
        for blocks in blocks {
            // One block between two runs belongs to neither.
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
        (MemoryFile { bytes, ..MemoryFile::default() }, runs)
    }
}

pub(super) fn portion(memory: &Arc<MemoryFile>) -> Portion {
    portion_in(memory.clone(), memory.bytes.len() as u64)
}

/// The portion in a `file` of this many bytes.
pub(super) fn portion_in(file: Arc<dyn File>, bytes: u64) -> Portion {
    let place = PortionPlace { rank: 0, at: AT, bytes: bytes - AT };
    let header = Header {
        layout_id: [7; 16],
        layout_number: 1,
        ranks: 1,
        created_unix_ns: 0,
        space_id: [0; 16],
        is_sized: false,
        slot_stride: SLOT_STRIDE,
        file_bytes: bytes,
        holds_at: 0,
        holds_bytes: 0,
        portions: vec![place],
    };
    let layout = LayoutFile {
        name: "file".to_owned(),
        path: "file".into(),
        header,
        directory: None,
        file,
        is_mapping_awaited: Arc::default(),
        bytes,
    };
    Portion::new(&layout, place)
}
