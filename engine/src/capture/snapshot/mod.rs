//! A snapshot: the program's bytes at one moment, copied while the program goes on.
//!
//! Invariant: each copied byte has its value of that moment, or the snapshot has failed. The program's own processes,
//! signals and files are unaffected.

mod allocation;
mod clone;
mod clone_or_copy;
mod protect;

pub(crate) use allocation::has_same_address;
pub use allocation::{Allocated, OwnMemory};
use allocation::{OwnMapping, protectable_at};
pub(crate) use clone::Cloned;
pub(crate) use clone_or_copy::SnapshotChoice;
pub(crate) use protect::Protected;

use super::{copy, userfaultfd::page_bytes};
use crate::space::format::CopiedBy;
use std::{io, ops::Range, sync::Arc};

/// The reason why there is no snapshot; a plain copy remains possible.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// The system has no memory or no process for it, or refuses it.
    NoRoom(io::Error),
    /// The memory of these transfers cannot be part of a snapshot; `why` is the reason for the first.
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

// SAFETY: the addresses are used only as `new` was promised.
#[allow(unsafe_code)]
unsafe impl Send for Transfer {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Transfer {}

impl Transfer {
    /// # Safety
    /// `from` is memory of the program, and no other thread unmaps it while the snapshot is taken. `to` is
    /// shared memory of Mainstay's that forked children do not inherit. Its bytes are not accessed before they are
    /// reported copied, or the snapshot has ended.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(from: *const u8, to: *mut u8, bytes: usize) -> Transfer {
        Transfer { from, to, bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Merges `next` into this transfer if it follows on both sides; returns whether it did.
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
        // SAFETY: the program's memory is not written while the program waits, or it is write-protected; `to` is not
        // accessed (`new`).
        unsafe {
            let from = std::slice::from_raw_parts(self.from, self.bytes);
            copy(from, std::slice::from_raw_parts_mut(self.to, self.bytes));
        }
    }
}

/// The memory that some transfers read and that may be write-protected. It stays mapped as long; memory of other
/// sessions does not.
#[derive(Debug)]
pub(crate) struct Protectable(Vec<Arc<OwnMapping>>);

impl Protectable {
    pub(crate) fn of(transfers: &[Transfer]) -> Protectable {
        let mut found: Vec<Arc<OwnMapping>> = Vec::new();
        for at in transfers.iter().map(|transfer| transfer.from as usize) {
            if !found.iter().rev().any(|memory| memory.range().contains(&at)) {
                found.extend(protectable_at(at));
            }
        }
        Protectable(found)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `transfer` reads only such memory.
    pub(crate) fn has(&self, transfer: &Transfer) -> bool {
        let read = span(transfer.from, transfer.bytes);
        self.0.iter().any(|one| one.range().start <= read.start && read.end <= one.range().end)
    }
}

/// A snapshot that is being copied. Dropping it cancels it.
#[derive(Debug)]
pub(crate) struct Snapshot {
    cloned: Option<Cloned>,
    protected: Option<Protected>,
    /// Dropped last: it is being read.
    _memory: Protectable,
}

impl Snapshot {
    /// `None` if there is neither.
    pub(crate) fn of(cloned: Option<Cloned>, protected: Option<Protected>, memory: Protectable) -> Option<Snapshot> {
        (cloned.is_some() || protected.is_some()).then_some(Snapshot { cloned, protected, _memory: memory })
    }

    /// Whether the copy is complete; an error if it failed. `Some` once it has ended.
    pub(crate) fn poll(&mut self) -> Option<io::Result<()>> {
        let cloned = self.cloned.as_mut().map_or(Some(Ok(())), Cloned::poll);
        let protected = self.protected.as_mut().map_or(Some(Ok(())), Protected::poll);
        Some(cloned?.and(protected?))
    }

    /// The number of bytes copied so far of the clone's transfers, in their order.
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

/// The pages of a range.
fn pages(range: &Range<usize>) -> Range<usize> {
    let page = page_bytes();
    range.start / page * page..range.end.next_multiple_of(page)
}

/// The ranges in ascending order; adjacent or overlapping ones are merged.
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
