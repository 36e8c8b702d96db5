//! A disk that takes so many writes more, and then none: whoever writes waits until its process is killed.

use super::between::{Between, Watched};
use mainstay_engine::device::{Disk, File};
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

#[derive(Debug)]
pub struct Writes {
    left: AtomicU64,
}

/// Takes all writes yet.
pub fn stuck(disk: Disk) -> Watched<Writes> {
    Watched::new(disk, Writes { left: AtomicU64::new(u64::MAX) })
}

impl Writes {
    pub fn sticks_after(&self, writes: u64) {
        self.left.store(writes, Ordering::SeqCst);
    }

    /// How many writes more it takes.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::SeqCst)
    }
}

impl Between for Writes {
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let one_less = |left: u64| left.checked_sub(1);
        while self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            thread::park();
        }
        file.write_at(bytes, offset)
    }
}
