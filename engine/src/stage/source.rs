//! What is staged: bytes in a row, or a region whose rows lie apart.

use crate::{
    capture::{Region, copy},
    error::Result,
};

/// The size of the parts in which rows that lie apart are brought together, if they are not copied anyway.
const PART_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    Row(&'a [u8]),
    /// A region, from a byte on, so many bytes.
    Rows(&'a Region, usize, usize),
}

impl<'a> Source<'a> {
    pub(super) fn of(region: &'a Region) -> Source<'a> {
        Source::part_of(region, 0, region.description.bytes)
    }

    /// `bytes` bytes of `region`, from `from` on.
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

    /// The bytes, if they can be had without a copy.
    pub(super) fn row(self) -> Option<&'a [u8]> {
        match self {
            Source::Row(bytes) => Some(bytes),
            Source::Rows(..) => None,
        }
    }

    /// Copies the bytes from `from` on.
    pub(super) fn copy(self, from: usize, into: &mut [u8]) {
        match self {
            Source::Row(bytes) => copy(&bytes[from..][..into.len()], into),
            Source::Rows(region, begin, _) => region.copy_out((begin + from) as u64, into),
        }
    }

    /// Gives `write` all bytes, part by part, each with its offset.
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
