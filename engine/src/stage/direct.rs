//! The stage without a buffer: each piece goes to the space as it comes, in one write if its place there is one run, as
//! a library that dumps a process does. Only the block at the end of the log is kept, to be hashed once it is full.

use crate::{
    capture::InputPiece,
    error::Result,
    place::Shard,
    space::{
        Aligned,
        format::{BLOCK, BLOCK_BYTES},
    },
};

#[derive(Debug)]
pub(super) struct Direct {
    /// The last block of the log, partly filled.
    tail: Aligned,
    /// Length of the log.
    end: u64,
}

impl Direct {
    pub(super) fn new(shard: &Shard) -> Result<Direct> {
        let tail = Aligned::zeroed(BLOCK_BYTES).ok_or_else(|| shard.out_of_memory(BLOCK_BYTES))?;
        Ok(Direct { tail, end: 0 })
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The offset that a piece will have.
    pub(super) fn place(&self, handed: &InputPiece) -> u64 {
        self.end.next_multiple_of(handed.alignment)
    }

    /// Writes `bytes` at the offset that `place` gave.
    pub(super) fn write(&mut self, shard: &Shard, at: u64, bytes: &[u8]) -> Result<()> {
        const ZEROS: [u8; BLOCK] = [0; BLOCK];
        // In a log that begins on a block, the alignment takes less than one block.
        self.append(shard, &ZEROS[..(at - self.end) as usize])?;
        // Whole blocks of aligned memory need no copy on their way.
        let aligned = bytes.as_ptr().addr().is_multiple_of(BLOCK) && self.end.is_multiple_of(BLOCK_BYTES);
        let (blocks, rest) = bytes.split_at(if aligned { bytes.len() / BLOCK * BLOCK } else { 0 });
        self.append(shard, blocks)?;
        self.append(shard, rest)
    }

    /// Pads the last block.
    pub(super) fn finish(&mut self, shard: &Shard) -> Result<()> {
        let padded = self.end.next_multiple_of(BLOCK_BYTES);
        self.write(shard, padded, &[])
    }

    fn append(&mut self, shard: &Shard, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        shard.write(self.end, bytes)?;
        let in_tail = self.end as usize % BLOCK;
        let (mut at, mut rest) = (self.end - in_tail as u64, bytes);
        if in_tail > 0 {
            let (head, behind) = rest.split_at(rest.len().min(BLOCK - in_tail));
            self.tail[in_tail..in_tail + head.len()].copy_from_slice(head);
            rest = behind;
            if in_tail + head.len() == BLOCK {
                shard.hash(at, &self.tail);
                at += BLOCK_BYTES;
            }
        }
        let (blocks, last) = rest.split_at(rest.len() / BLOCK * BLOCK);
        shard.hash(at, blocks);
        if !last.is_empty() {
            self.tail[..last.len()].copy_from_slice(last);
        }
        self.end += bytes.len() as u64;
        Ok(())
    }
}
