//! The holds of a layout file: their place, reading and writing them. Processes other than the job write holds, each
//! into its own block. A block that cannot be read holds nothing and does no harm.

use super::{
    Aligned, LayoutFile,
    format::{BLOCK, BLOCK_BYTES, HOLDS, Hold, HoldAnswers, HoldBlock},
};
use crate::{
    device,
    error::{Error, Result},
    ground::unix_ns,
};
use std::{collections::BTreeMap, io::ErrorKind};

/// Bytes in each file for the holds and the acknowledgement.
pub(crate) const HOLDS_BYTES: u64 = (HOLDS as u64 + 1) * BLOCK_BYTES;

/// The holds of one file, as read.
#[derive(Debug, Clone)]
pub(crate) struct HoldsRead {
    pub(crate) blocks: Vec<HoldBlock>,
    /// The answers of the last job that wrote.
    pub(crate) answers: Option<HoldAnswers>,
}

impl HoldsRead {
    pub(crate) fn holds(&self) -> impl Iterator<Item = (usize, &Hold)> {
        self.blocks.iter().enumerate().filter_map(|(index, block)| match block {
            HoldBlock::Hold(hold) => Some((index, hold)),
            _ => None,
        })
    }
}

/// All holds in `files` that have not expired, each once, in the order of their ids.
pub(crate) fn holds_in(files: &[LayoutFile]) -> Result<BTreeMap<[u8; 16], Hold>> {
    let (now, mut holds) = (unix_ns(), BTreeMap::new());
    for file in files {
        let read = file.read_holds()?;
        let left = read.holds().filter(|(_, hold)| !hold.has_expired(now));
        holds.extend(left.map(|(_, hold)| (hold.id, hold.clone())));
    }
    Ok(holds)
}

impl LayoutFile {
    /// Whether the file has room for holds. Every file that Mainstay made has.
    pub(crate) fn takes_holds(&self) -> bool {
        self.header.holds_bytes >= HOLDS_BYTES && self.header.holds_at.is_multiple_of(BLOCK_BYTES)
    }

    /// Reads all holds, in one read.
    pub(crate) fn read_holds(&self) -> Result<HoldsRead> {
        let mut blocks = vec![HoldBlock::Free; HOLDS];
        if !self.takes_holds() {
            return Ok(HoldsRead { blocks: vec![HoldBlock::Newer; HOLDS], answers: None });
        }
        let failed = |e| Error::io("reading the holds of", &self.path, e);
        let mut bytes = Aligned::zeroed(HOLDS_BYTES).ok_or_else(|| failed(ErrorKind::OutOfMemory.into()))?;
        // One rank reads this before each checkpoint, and all others wait for it.
        match device::peek_full(&*self.file, &mut bytes, self.header.holds_at) {
            // A file that is cut short before its first portion has nothing left to hold.
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(HoldsRead { blocks, answers: None }),
            read => read.map_err(failed)?,
        }
        let (all, _) = bytes.as_chunks::<BLOCK>();
        for (place, block) in blocks.iter_mut().zip(all) {
            *place = HoldBlock::parse(block);
        }
        Ok(HoldsRead { blocks, answers: all.last().and_then(HoldAnswers::parse) })
    }

    /// Writes the hold of block `index`, or `None` to free it, and syncs.
    pub(crate) fn write_hold(&self, index: usize, hold: Option<&Hold>) -> Result<()> {
        assert!(index < HOLDS, "a hold in the block of the acknowledgement");
        self.write_holds_block(index, &hold.map_or([0; BLOCK], Hold::build))?;
        self.sync_holds()
    }

    /// Writes the acknowledgement. The caller syncs, because a failed sync means more to it than a missing
    /// acknowledgement.
    pub(crate) fn write_answers(&self, answers: &HoldAnswers) -> Result<()> {
        self.write_holds_block(HOLDS, &answers.build())
    }

    pub(crate) fn sync_holds(&self) -> Result<()> {
        self.file.sync().map_err(|e| Error::io("syncing", &self.path, e))
    }

    fn write_holds_block(&self, index: usize, block: &[u8; BLOCK]) -> Result<()> {
        assert!(self.takes_holds(), "a hold where there is no room for one");
        let failed = |e| Error::io("writing a hold to", &self.path, e);
        let block = Aligned::holding(block).ok_or_else(|| failed(ErrorKind::OutOfMemory.into()))?;
        let at = self.header.holds_at + index as u64 * BLOCK_BYTES;
        device::write_full(&*self.file, &block, at).map_err(failed)?;
        Ok(())
    }
}
