//! A snapshot: the program's bytes as they are at one moment, copied while the program goes on.
//!
//! What must hold: whatever the program does meanwhile, each byte that is copied is what it was at that moment, or the
//! snapshot has failed; the program's own processes, signals and files are as if there were none.

mod allocation;
mod clone;
mod protect;

pub(crate) use allocation::Allocation;
pub(crate) use clone::Cloned;
pub(crate) use protect::Protected;

use super::userfaultfd::page_bytes;
use std::{io, ops::Range};

/// Why there is no snapshot; a plain copy is what is left.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// The system has no memory or no process for it, or does not let us.
    NoRoom(io::Error),
    /// The memory of this transfer cannot be part of one.
    Unsuited { index: usize, why: String },
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
    /// memory of Mainstay's, which forked children do not inherit, and which nobody refers to before the snapshot has
    /// ended.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(from: *const u8, to: *mut u8, bytes: usize) -> Transfer {
        Transfer { from, to, bytes }
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

/// The same ranges, in order, those that touch or overlap as one.
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
