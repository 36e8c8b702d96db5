//! The data to stage: contiguous bytes, or a region of separate rows.

use crate::{
    capture::{Region, copy},
    error::Result,
};

/// The size of the parts in which separate rows are brought together, if they are not copied anyway.
const PART_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    Row(&'a [u8]),
    /// A region, the offset of the first byte in it, and the number of bytes.
    Rows(&'a Region, usize, usize),
}

impl<'a> Source<'a> {
    pub(super) fn of(region: &'a Region) -> Source<'a> {
        Source::part_of(region, 0, region.description.bytes)
    }

    /// `bytes` bytes of `region`, starting at `from`.
    pub(super) fn part_of(region: &'a Region, from: u64, bytes: u64) -> Source<'a> {
        let (from, bytes) = (from as usize, bytes as usize);
        region.row().map_or(Source::Rows(region, from, bytes), |row| Source::Row(&row[from..from + bytes]))
    }

    pub(super) fn len(self) -> usize {
        match self {
            Source::Row(bytes) => bytes.len(),
            Source::Rows(_, _, bytes) => bytes,
        }
    }

    /// The bytes, if they are available without a copy.
    pub(super) fn row(self) -> Option<&'a [u8]> {
        match self {
            Source::Row(bytes) => Some(bytes),
            Source::Rows(..) => None,
        }
    }

    /// Copies the bytes, starting at `from`.
    pub(super) fn copy(self, from: usize, into: &mut [u8]) {
        match self {
            Source::Row(bytes) => copy(&bytes[from..][..into.len()], into),
            Source::Rows(region, begin, _) => region.copy_out((begin + from) as u64, into),
        }
    }

    /// Calls `write` with all bytes, part by part, each with its offset.
    pub(super) fn each(self, mut write: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        if let Source::Row(bytes) = self {
            return write(0, bytes);
        }
        let mut part = vec![0; PART_BYTES.min(self.len())];
        let mut from = 0;
        while from < self.len() {
            let bytes = part.len().min(self.len() - from);
            self.copy(from, &mut part[..bytes]);
            write(from as u64, &part[..bytes])?;
            from += bytes;
        }
        Ok(())
    }
}
