//! The layout of a region's bytes in the program's memory: one row, rows with gaps (as the inside of an array with
//! ghost cells), or stretches of any length.
//!
//! Invariant: only the region's bytes are touched.

use super::{copy::copy, stretches::Stretches};
use crate::boxes::Rows;
use std::ops::Range;

#[derive(Debug, Clone)]
pub(super) struct RegionMemory {
    address: *mut u8,
    bytes: u64,
    lay: Lay,
}

#[derive(Debug, Clone)]
enum Lay {
    Rows(Rows),
    Stretches(Stretches),
}

// SAFETY: the address is used only inside calls that the owner of the memory makes (see `Region::new`).
#[allow(unsafe_code)]
unsafe impl Send for RegionMemory {}
// SAFETY: as above; while a restore fills regions from several threads, each byte has one writer.
#[allow(unsafe_code)]
unsafe impl Sync for RegionMemory {}

impl RegionMemory {
    pub(super) fn in_a_row(address: *mut u8, bytes: u64) -> RegionMemory {
        RegionMemory { address, bytes, lay: Lay::Rows(Rows::whole(bytes)) }
    }

    /// The same bytes in `rows`, which are offsets from the address.
    pub(super) fn in_rows(self, rows: Rows) -> RegionMemory {
        RegionMemory { lay: Lay::Rows(rows), ..self }
    }

    /// The same bytes in stretches; the first begins at the address.
    pub(super) fn in_stretches(self, stretches: Stretches) -> RegionMemory {
        RegionMemory { lay: Lay::Stretches(stretches), ..self }
    }

    /// Rows of the same shape at another address.
    pub(super) fn moved_to(&self, address: *mut u8) -> RegionMemory {
        RegionMemory { address, ..self.clone() }
    }

    pub(super) fn is_in_a_row(&self) -> bool {
        self.alone() == Some(0)
    }

    pub(super) fn address(&self) -> usize {
        self.address as usize
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.address
    }

    /// The number of bytes from the region's first to its last, including the gaps.
    pub(super) fn reach(&self) -> u64 {
        let rows = match &self.lay {
            Lay::Rows(rows) => rows,
            Lay::Stretches(stretches) => return stretches.reach(),
        };
        let mut end = rows.first();
        rows.each(self.bytes.saturating_sub(1)..self.bytes, |_, at, bytes| end = at + bytes as u64);
        end - rows.first()
    }

    /// The address of the region's first byte.
    pub(super) fn begins_at(&self) -> usize {
        self.address as usize + self.first() as usize
    }

    /// The first row that ends behind `address`, or its part behind `address`.
    pub(super) fn stretch_from(&self, address: usize) -> Option<Range<usize>> {
        let from = address.saturating_sub(self.address()) as u64;
        let row = match &self.lay {
            Lay::Rows(rows) => rows.row_from(from)?,
            Lay::Stretches(stretches) => stretches.from(from)?,
        };
        let at = |offset: u64| self.address().saturating_add(offset as usize);
        Some(at(row.start.max(from))..at(row.end))
    }

    /// The length of the first row.
    pub(super) fn row_bytes(&self) -> u64 {
        match &self.lay {
            Lay::Rows(rows) => rows.row_bytes(),
            Lay::Stretches(stretches) => stretches.first_bytes(),
        }
    }

    pub(super) fn row(&self) -> Option<&[u8]> {
        self.alone().map(|at| self.at(at, self.bytes as usize))
    }

    /// Copies the region's bytes from `offset` on into a buffer.
    pub(super) fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.each(self.range(offset, into.len()), |from, at, bytes| {
            copy(self.at(at, bytes), &mut into[(from - offset) as usize..][..bytes]);
        });
    }

    /// Copies `from` over the region's bytes from `offset` on.
    #[allow(unsafe_code)]
    pub(super) fn copy_in(&self, offset: u64, from: &[u8]) {
        self.each(self.range(offset, from.len()), |source, at, bytes| {
            // SAFETY: inside the region, which is writable and ours during the call (`Region::new`); other
            // threads write other bytes of it.
            let into = unsafe { std::slice::from_raw_parts_mut(self.address.add(at as usize), bytes) };
            copy(&from[(source - offset) as usize..][..bytes], into);
        });
    }

    /// The same, but memory that already holds these bytes is not written, and so needs no pages.
    pub(super) fn copy_in_what_differs(&self, offset: u64, from: &[u8]) {
        self.each(self.range(offset, from.len()), |source, at, bytes| {
            let part = &from[(source - offset) as usize..][..bytes];
            if self.at(at, bytes) != part {
                self.copy_in(source, part);
            }
        });
    }

    /// The offset of the bytes from the address, if they are one row.
    fn alone(&self) -> Option<u64> {
        let Lay::Rows(rows) = &self.lay else { return None };
        rows.alone()
    }

    /// The offset of the first byte from the address.
    fn first(&self) -> u64 {
        let Lay::Rows(rows) = &self.lay else { return 0 };
        rows.first()
    }

    fn each(&self, range: Range<u64>, put: impl FnMut(u64, u64, usize)) {
        match &self.lay {
            Lay::Rows(rows) => rows.each(range, put),
            Lay::Stretches(stretches) => stretches.each(range, put),
        }
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
