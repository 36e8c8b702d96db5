//! Address slots: where each rank lies, the same in every process.
//!
//! Invariants: slots do not overlap, and nothing else lies in them. A rank's slot has the same address for as long as the
//! job lives, so every pointer of the rank stays true.

use crate::{Error, Result};
use std::ops::Range;

pub(crate) const PAGE: usize = 4096;

/// Neither Linux nor a C library puts anything here. PMIx puts shared memory in the middle of the largest hole of its
/// server: near 0x2a80_0000_0000, or near 0x4000_0000_0000 if the server has a fixed address.
const FIRST: usize = 0x2c00_0000_0000;
const ALL: usize = 1 << 44;
const LARGEST: usize = 1 << 36;
const SMALLEST: usize = 1 << 30;
/// More than the image with the clocks needs.
const CLOCKS_BYTES: usize = 16 * PAGE;
/// As many ranks as there are slots of the smallest size.
pub(crate) const RANKS_MAX: usize = ALL / SMALLEST;

/// All slots of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    pub ranks: usize,
    pub bytes: usize,
}

impl Slots {
    /// The slots of a job with `ranks` ranks. The size depends on this number alone, so every process agrees on it.
    pub fn of(ranks: usize) -> Result<Slots> {
        if ranks == 0 || ranks > RANKS_MAX {
            return Err(Error::Refused(format!("{ranks} ranks: a job in slots has 1 to {RANKS_MAX}")));
        }
        let share = ALL / ranks.next_power_of_two();
        Ok(Slots { ranks, bytes: share.clamp(SMALLEST, LARGEST) })
    }

    /// The addresses of all slots that a job can have.
    pub fn range() -> Range<usize> {
        FIRST..FIRST + ALL
    }

    pub fn slot(self, rank: usize) -> Slot {
        Slot { base: FIRST + rank * self.bytes, bytes: self.bytes }
    }
}

/// The addresses of one rank, and their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub base: usize,
    pub bytes: usize,
}

impl Slot {
    pub fn range(self) -> Range<usize> {
        self.base..self.base + self.bytes
    }

    /// The executable.
    pub fn program(self) -> usize {
        self.base
    }

    /// Its dynamic loader.
    pub fn interpreter(self) -> usize {
        self.base + self.bytes / 8
    }

    /// The image with the rank's clocks.
    pub fn clocks(self) -> usize {
        self.heap().start - CLOCKS_BYTES
    }

    /// The heap that `brk` moves.
    pub fn heap(self) -> Range<usize> {
        self.base + self.bytes / 8 + self.bytes / 16..self.base + self.bytes / 2
    }

    /// Where `mmap` puts memory that has no address yet.
    pub fn arena(self) -> Range<usize> {
        self.base + self.bytes / 2..self.stack().start - self.bytes / 64
    }

    /// The stack, at most. It ends with the slot, but for a page.
    pub fn stack(self) -> Range<usize> {
        self.base + self.bytes - self.bytes / 32..self.base + self.bytes - PAGE
    }

    /// Whether `bytes` bytes at `address` lie in the slot.
    pub fn has(self, address: usize, bytes: usize) -> bool {
        address.checked_add(bytes).is_some_and(|end| address >= self.base && end <= self.base + self.bytes)
    }
}

/// The next page boundary.
pub(crate) fn page_up(address: usize) -> usize {
    address.saturating_add(PAGE - 1) & !(PAGE - 1)
}

pub(crate) fn page_down(address: usize) -> usize {
    address & !(PAGE - 1)
}
