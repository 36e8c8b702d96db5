//! A snapshot: the program's bytes as they are at one moment, copied while the program goes on.
//!
//! What must hold: whatever the program does meanwhile, each byte that is copied is what it was at that moment, or the
//! snapshot has failed; the program's own processes, signals and files are as if there were none.

mod allocation;
mod choice;
mod clone;
mod protect;

pub(crate) use allocation::has_same_address;
pub use allocation::{Allocated, OwnMemory};
use allocation::{OwnMapping, protectable};
pub(crate) use choice::SnapshotChoice;
pub(crate) use clone::Cloned;
pub(crate) use protect::Protected;

use super::{copy, userfaultfd::page_bytes};
use crate::space::format::CopiedBy;
use std::{io, ops::Range, sync::Arc};

/// Why there is no snapshot; a plain copy is what is left.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// The system has no memory or no process for it, or does not let us.
    NoRoom(io::Error),
    /// The memory of these transfers cannot be part of one; why that of the first cannot.
    Unsuited { indices: Vec<usize>, why: String },
}

impl From<io::Error> for NotTaken {
    fn from(error: io::Error) -> NotTaken {
        NotTaken::NoRoom(error)
    }
}

/// `bytes` bytes to be copied.
#[derive(Debug)]
pub(crate) struct Transfer {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

// SAFETY: the addresses are followed only as `new` was promised.
#[allow(unsafe_code)]
unsafe impl Send for Transfer {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Transfer {}

impl Transfer {
    /// # Safety
    /// `from` is memory of the program's, which no other thread unmaps while the snapshot is taken. `to` is shared
    /// memory of Mainstay's, which forked children do not inherit, and of which nobody refers to a byte before that is told
    /// to be copied, or the snapshot has ended.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(from: *const u8, to: *mut u8, bytes: usize) -> Transfer {
        Transfer { from, to, bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Takes in `next`, if that follows this transfer on both sides; returns whether it did.
    pub(crate) fn take_on(&mut self, next: &Transfer) -> bool {
        let follows = self.from.wrapping_add(self.bytes) == next.from && self.to.wrapping_add(self.bytes) == next.to;
        if follows {
            self.bytes += next.bytes;
        }
        follows
    }

    /// Copies at once, without a snapshot. The program waits meanwhile.
    #[allow(unsafe_code)]
    pub(crate) fn copy_now(&self) {
        // SAFETY: nobody writes to the program's memory while it waits, or this is protected from writes; nobody refers to
        // `to` (`new`).
        unsafe {
            let from = std::slice::from_raw_parts(self.from, self.bytes);
            copy(from, std::slice::from_raw_parts_mut(self.to, self.bytes));
        }
    }
}

/// Which memory may be protected from writes, at one moment; it stays as long.
#[derive(Debug)]
pub(crate) struct Protectable(Vec<Arc<OwnMapping>>);

impl Protectable {
    pub(crate) fn now() -> Protectable {
        Protectable(protectable())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all that `transfer` reads is such memory.
    pub(crate) fn has(&self, transfer: &Transfer) -> bool {
        let read = span(transfer.from, transfer.bytes);
        self.0.iter().any(|one| one.range().start <= read.start && read.end <= one.range().end)
    }
}

/// A snapshot that was taken, and is being copied. Dropped, it is given up.
#[derive(Debug)]
pub(crate) struct Snapshot {
    cloned: Option<Cloned>,
    protected: Option<Protected>,
    /// Dropped last: it is being read.
    _memory: Protectable,
}

impl Snapshot {
    /// `None` if there is none of either kind.
    pub(crate) fn of(cloned: Option<Cloned>, protected: Option<Protected>, memory: Protectable) -> Option<Snapshot> {
        (cloned.is_some() || protected.is_some()).then_some(Snapshot { cloned, protected, _memory: memory })
    }

    /// Whether it is copied; an error if it never will be. Some, once it has ended.
    pub(crate) fn poll(&mut self) -> Option<io::Result<()>> {
        let cloned = self.cloned.as_mut().map_or(Some(Ok(())), Cloned::poll);
        let protected = self.protected.as_mut().map_or(Some(Ok(())), Protected::poll);
        Some(cloned?.and(protected?))
    }

    /// How many bytes of the clone's transfers are copied so far, in their order.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.cloned.as_ref().map_or(0, Cloned::copied_bytes)
    }

    pub(crate) fn copied_by(&self) -> CopiedBy {
        if self.cloned.is_some() { CopiedBy::Clone } else { CopiedBy::Protection }
    }
}

fn span<T>(at: *const T, bytes: usize) -> Range<usize> {
    at as usize..at as usize + bytes
}

/// The pages that a range lies in.
fn pages(range: &Range<usize>) -> Range<usize> {
    let page = page_bytes();
    range.start / page * page..range.end.next_multiple_of(page)
}

/// The ranges in ascending order, with those that touch or overlap made one.
fn united(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut united: Vec<Range<usize>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match united.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}
