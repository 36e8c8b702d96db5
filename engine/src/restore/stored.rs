//! An item's bytes, wherever its extents are.

use super::BlockReader;
use crate::{
    error::Result,
    space::format::{BLOCK_BYTES, Extent, Item},
};

/// The place of each byte of an item.
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    /// The extents in the order of the item's bytes, each with its offset in the item.
    extents: Vec<(u64, Extent)>,
}

impl Stored {
    /// The bytes of an `item` of a checked manifest.
    pub(crate) fn of(item: &Item) -> Stored {
        let mut offset = 0;
        let placed = item.extents.iter().map(|extent| {
            let begins = offset;
            offset += extent.bytes;
            (begins, *extent)
        });
        Stored { bytes: item.bytes, extents: placed.collect() }
    }

    /// Fills `into` from `offset` on; returns the number of bytes read.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8], blocks: &mut BlockReader) -> Result<usize> {
        let bytes = self.bytes.saturating_sub(offset).min(into.len() as u64) as usize;
        let mut rest = &mut into[..bytes];
        let first = self.extents.partition_point(|(begins, extent)| begins + extent.bytes <= offset);
        let mut offset = offset;
        for (begins, extent) in &self.extents[first..] {
            if rest.is_empty() {
                break;
            }
            let within = offset - begins;
            let part = rest.split_off_mut(..rest.len().min((extent.bytes - within) as usize)).unwrap_or_default();
            match extent.is_zeros() {
                true => part.fill(0),
                false => blocks.read(extent.at + within, part)?,
            }
            offset += part.len() as u64;
        }
        Ok(bytes)
    }

    /// The first byte of the block in the portion that holds exactly the item's bytes from `offset` on; `None` if there
    /// is no such block, as for zeros.
    pub(crate) fn block_at(&self, offset: u64) -> Option<u64> {
        let index = self.extents.partition_point(|(begins, extent)| begins + extent.bytes <= offset);
        let (begins, extent) = self.extents.get(index)?;
        let (at, left) = (extent.at + (offset - begins), begins + extent.bytes - offset);
        (at.is_multiple_of(BLOCK_BYTES) && left >= BLOCK_BYTES && !extent.is_zeros()).then_some(at)
    }
}
