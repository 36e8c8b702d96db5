//! The memory of a simulated program.

use std::ops::{Deref, DerefMut};

pub(super) const PAGE: usize = 4096;

/// Memory at a chosen offset in its page, because the engine treats whole pages in another way.
pub(super) struct Memory {
    all: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(bytes: usize, offset: usize) -> Memory {
        let all = vec![0; bytes + 2 * PAGE];
        let from = all.as_ptr().align_offset(PAGE) + offset % PAGE;
        Memory { all, from, bytes }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.all[self.from..self.from + self.bytes]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.all[self.from..self.from + self.bytes]
    }
}
