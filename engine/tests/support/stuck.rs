//! A disk that takes a given number of further writes, and then none: a later writer waits until its process is killed,
//! or has it killed.

use super::between::{Between, Watched};
use mainstay_engine::device::{Disk, File};
use nix::sys::signal::{Signal, raise};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

#[derive(Debug)]
pub struct Writes {
    left: AtomicU64,
    /// A rank's own thread does not wait: its process is killed.
    kills: AtomicBool,
}

/// The disk takes all writes at first.
pub fn stuck(disk: Disk) -> Watched<Writes> {
    Watched::new(disk, Writes { left: AtomicU64::new(u64::MAX), kills: AtomicBool::new(false) })
}

impl Writes {
    pub fn sticks_after(&self, writes: u64) {
        self.left.store(writes, Ordering::SeqCst);
    }

    /// The same, but a later write by a rank's own thread kills the process at once, because the rank would never end.
    /// The engine's threads have names; the ranks' threads of the tests have none.
    pub fn kills_after(&self, writes: u64) {
        self.kills.store(true, Ordering::SeqCst);
        self.sticks_after(writes);
    }

    /// The number of writes that it still takes.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::SeqCst)
    }
}

impl Between for Writes {
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let one_less = |left: u64| left.checked_sub(1);
        while self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            if self.kills.load(Ordering::SeqCst) && thread::current().name().is_none() {
                let _ = raise(Signal::SIGKILL);
            }
            thread::park();
        }
        file.write_at(bytes, offset)
    }
}
