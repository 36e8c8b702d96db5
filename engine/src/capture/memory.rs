//! Where a region's bytes lie in the program's memory: in a row, or in rows with gaps between them, as the inside of
//! an array with ghost cells does.
//!
//! What must hold: no byte is touched that is not the region's.

use super::copy::copy;
use crate::boxes::Rows;
use std::ops::Range;

#[derive(Debug, Clone)]
pub(super) struct RegionMemory {
    address: *mut u8,
    bytes: u64,
    rows: Rows,
}

// SAFETY: the address is used only inside calls that the owner of the memory makes (see `Region::new`).
#[allow(unsafe_code)]
unsafe impl Send for RegionMemory {}
// SAFETY: as above; while a restore fills regions from several threads, each byte has one writer.
#[allow(unsafe_code)]
unsafe impl Sync for RegionMemory {}

impl RegionMemory {
    pub(super) fn in_a_row(address: *mut u8, bytes: u64) -> RegionMemory {
        RegionMemory { address, bytes, rows: Rows::whole(bytes) }
    }

    /// The same bytes where `rows` say that they lie, as offsets from the address, and no longer in one row.
    pub(super) fn in_rows(self, rows: Rows) -> RegionMemory {
        RegionMemory { rows, ..self }
    }

    /// Rows of the same shape at another address.
    pub(super) fn moved_to(&self, address: *mut u8) -> RegionMemory {
        RegionMemory { address, ..self.clone() }
    }

    pub(super) fn is_in_a_row(&self) -> bool {
        self.rows.alone() == Some(0)
    }

    pub(super) fn address(&self) -> usize {
        self.address as usize
    }

    /// The number of bytes from the region's first to its last, with the gaps between.
    pub(super) fn reach(&self) -> u64 {
        let mut end = self.rows.first();
        self.rows.each(self.bytes.saturating_sub(1)..self.bytes, |_, at, bytes| end = at + bytes as u64);
        end - self.rows.first()
    }

    /// The address of the region's first byte.
    pub(super) fn begins_at(&self) -> usize {
        self.address as usize + self.rows.first() as usize
    }

    /// The first row that ends behind `address`, or what of it lies behind that: its addresses.
    pub(super) fn stretch_from(&self, address: usize) -> Option<Range<usize>> {
        let from = address.saturating_sub(self.address()) as u64;
        let row = self.rows.row_from(from)?;
        let at = |offset: u64| self.address().saturating_add(offset as usize);
        Some(at(row.start.max(from))..at(row.end))
    }

    pub(super) fn row_bytes(&self) -> u64 {
        self.rows.row_bytes()
    }

    pub(super) fn row(&self) -> Option<&[u8]> {
        self.rows.alone().map(|at| self.at(at, self.bytes as usize))
    }

    /// Copies the region's bytes from `offset` on into a buffer.
    pub(super) fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.rows.each(self.range(offset, into.len()), |from, at, bytes| {
            copy(self.at(at, bytes), &mut into[(from - offset) as usize..][..bytes]);
        });
    }

    /// Copies `from` over the region's bytes from `offset` on.
    #[allow(unsafe_code)]
    pub(super) fn copy_in(&self, offset: u64, from: &[u8]) {
        self.rows.each(self.range(offset, from.len()), |source, at, bytes| {
            // SAFETY: inside the region, which is writable and ours during the call (`Region::new`); other
            // threads write other bytes of it.
            let into = unsafe { std::slice::from_raw_parts_mut(self.address.add(at as usize), bytes) };
            copy(&from[(source - offset) as usize..][..bytes], into);
        });
    }

    /// The same, except for memory that holds it already: that is not written, and needs no pages then.
    pub(super) fn copy_in_what_differs(&self, offset: u64, from: &[u8]) {
        self.rows.each(self.range(offset, from.len()), |source, at, bytes| {
            let part = &from[(source - offset) as usize..][..bytes];
            if self.at(at, bytes) != part {
                self.copy_in(source, part);
            }
        });
    }

    fn range(&self, offset: u64, bytes: usize) -> Range<u64> {
        let end = offset + bytes as u64;
        assert!(end <= self.bytes);
        offset..end
    }

    /// The bytes of one row.
    #[allow(unsafe_code)]
    fn at(&self, at: u64, bytes: usize) -> &[u8] {
        if bytes == 0 {
            return &[];
        }
        // SAFETY: inside the region, which stays readable and unchanged during the call (`Region::new`).
        unsafe { std::slice::from_raw_parts(self.address.add(at as usize), bytes) }
    }
}
