//! Blocks that are written to the portion before their revision has begun.
//!
//! Invariant: only free blocks are written, which were reserved for this alone; the holder of this value has asked that
//! no root be written meanwhile.

use crate::{
    commit::{Ledger, Need, SpeculativeRoom},
    error::Result,
    ground::lock,
    space::{
        Portion,
        format::{BLOCK, BLOCK_BYTES, HASH_BYTES, Run, hash_blocks},
    },
};
use std::sync::Mutex;

#[derive(Debug)]
pub(crate) struct SpeculativePart {
    portion: Portion,
    room: SpeculativeRoom,
    /// The hashes of the blocks that have been written.
    rows: Vec<u8>,
}

impl SpeculativePart {
    /// Finds room in the portion of `ledger`, beside everything that its slots refer to; `None` if there is none.
    /// `whole`: the most that the next shard takes.
    pub(crate) fn find(ledger: &Mutex<Ledger>, whole: Need) -> Result<Option<SpeculativePart>> {
        let ledger = lock(ledger);
        let room = ledger.speculative_room(whole)?;
        Ok(room.map(|room| SpeculativePart { portion: ledger.portion().clone(), room, rows: Vec::new() }))
    }

    fn written(&self) -> u64 {
        (self.rows.len() / HASH_BYTES) as u64
    }

    /// Number of further blocks that fit.
    pub(crate) fn left(&self) -> u64 {
        self.room.data.iter().map(|blocks| blocks.count).sum::<u64>() - self.written()
    }

    /// Writes whole blocks, which must fit; returns the offset of each in the portion. After an error earlier blocks
    /// are in doubt too.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<Vec<u64>> {
        let (mut before, mut first) = (self.written(), self.written());
        let mut lie = Vec::with_capacity(bytes.len() / BLOCK);
        let mut rows = vec![0; bytes.len() / BLOCK * HASH_BYTES];
        hash_blocks(bytes, &mut rows);
        for stretch in &self.room.data {
            if before >= stretch.count {
                before -= stretch.count;
                continue;
            }
            let count = (stretch.count - before).min(bytes.len() as u64 / BLOCK_BYTES);
            if count == 0 {
                break;
            }
            let (now, later) = bytes.split_at((count * BLOCK_BYTES) as usize);
            self.portion.write((stretch.first + before) * BLOCK_BYTES, now)?;
            lie.extend(stretch.first + before..stretch.first + before + count);
            (bytes, before, first) = (later, 0, first + count);
        }
        assert!(bytes.is_empty() && first == self.written() + lie.len() as u64, "more blocks than there is room for");
        self.rows.extend(rows);
        Ok(lie)
    }

    /// Writes the hashes of all blocks; returns the runs of these blocks, ascending, and the hashes.
    pub(crate) fn finish(self) -> Result<(Vec<Run>, Vec<u8>)> {
        let (mut left, mut hashes_at) = (self.written(), self.room.rows.first * BLOCK_BYTES);
        if left > 0 {
            self.portion.write_padded(hashes_at, &self.rows)?;
        }
        let mut runs = Vec::new();
        for stretch in &self.room.data {
            let blocks = stretch.count.min(left);
            if blocks > 0 {
                runs.push(Run { first_block: stretch.first, blocks, hashes_at, hashes_hash: [0; HASH_BYTES] });
            }
            hashes_at += blocks * HASH_BYTES as u64;
            left -= blocks;
        }
        debug_assert_eq!(left, 0, "blocks were written outside of the room");
        Ok((runs, self.rows))
    }
}
