//! Gives the chunks their memory. It takes a while, so that whoever comes first does it and the others
//! wait; if it dies, another one goes on.

use super::{Pool, Shared, file, layout::Constants, map::HUGE_PAGE, signal::Waited};
use crate::{config::PoolHeld, error::Result};
use std::{os::unix::fs::MetadataExt, sync::atomic::Ordering};

/// How far the making has come: 0, one of these, or beyond them the member that is at it.
const MADE: u64 = 1;
/// There was no room. Told to those who waited; the next one tries again.
const FULL: u64 = 2;
const FAILED: u64 = 3;
const MAKERS: u64 = 1 << 32;
/// Waits that time out before another one makes it too: it changes no contents, and whoever is said to be
/// at it may not know.
const TIME_OUTS_MAX: u32 = 500;

impl Pool {
    /// Has the memory of all chunks made, by this member or another, and at hand. Without it a copy would
    /// meet page faults, or a full /dev/shm. A pool that is held only for checkpoints makes nothing yet.
    pub(crate) fn prepare(&self) -> Result<()> {
        let shared = &*self.shared;
        if shared.prepared.load(Ordering::Acquire) {
            return Ok(());
        }
        if shared.constants.held() == PoolHeld::Always {
            shared.make_once()?;
            let (at, bytes) = shared.chunk_range();
            shared.map.populate(at, bytes);
        }
        shared.prepared.store(true, Ordering::Release);
        Ok(())
    }
}

impl Shared {
    fn make_once(&self) -> Result<()> {
        let control = self.control();
        let (mut waited, mut time_outs) = (false, 0);
        loop {
            let found = control.making.load(Ordering::Acquire);
            match found {
                // The word alone is not believed: without its memory a copy would end the program.
                MADE if self.has_memory() => return Ok(()),
                FULL if waited => {
                    let [needed, available] =
                        [&control.full_needed, &control.full_available].map(|n| n.load(Ordering::Acquire));
                    return Err(file::full(self.path(), needed, available));
                }
                FAILED if waited => return Err(file::refused(self.path(), "another rank could not make it")),
                _ if time_outs < TIME_OUTS_MAX && self.maker(found).is_some_and(|maker| self.is_another(maker)) => {
                    waited = true;
                    let changed = || (control.making.load(Ordering::SeqCst) != found).then_some(());
                    // After a time-out the maker may have died.
                    if control.made.wait(changed) == Waited::TimedOut {
                        time_outs += 1;
                    }
                }
                _ => {
                    if control.making.compare_exchange(found, self.mine(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
                    {
                        return self.make();
                    }
                }
            }
        }
    }

    /// What `making` says while this member is at it.
    fn mine(&self) -> u64 {
        MAKERS + u64::from(self.member)
    }

    fn is_another(&self, maker: u32) -> bool {
        maker != self.member && self.is_alive(maker)
    }

    /// Who is at it. A number that no member has is nobody's.
    fn maker(&self, found: u64) -> Option<u32> {
        let member = u32::try_from(found.checked_sub(MAKERS)?).ok()?;
        (member < self.constants.members).then_some(member)
    }

    fn make(&self) -> Result<()> {
        let made = self.make_memory();
        let told = match &made {
            Ok(()) => MADE,
            Err(crate::Error::PoolFull { needed, available, .. }) => {
                self.control().full_needed.store(*needed, Ordering::Release);
                self.control().full_available.store(*available, Ordering::Release);
                FULL
            }
            Err(_) => FAILED,
        };
        // Who took over from us knows better.
        let _ = self.control().making.compare_exchange(self.mine(), told, Ordering::SeqCst, Ordering::Relaxed);
        self.control().made.wake_all();
        made
    }

    /// Huge pages first: asked for before the rest is allocated they are made at once, else small pages are
    /// made first and then copied. Changes no contents: it may come twice.
    fn make_memory(&self) -> Result<()> {
        let constants: &Constants = &self.constants;
        let (from, bytes) = (constants.chunks_at(), constants.bytes());
        // Another one may have begun.
        let missing = constants.memory_bytes().saturating_sub(self.memory());
        let available = file::available(self.file());
        if missing > available {
            return Err(file::full(self.path(), missing, available));
        }
        let page = 4096;
        let begun = (0..bytes).step_by(HUGE_PAGE).try_for_each(|at| {
            // Only what holds a page already becomes a huge one.
            file::give_memory(self.file(), self.path(), from + at, page.min(bytes - at))
        });
        let made = begun.and_then(|()| {
            let (at, bytes) = self.chunk_range();
            self.map.collapse(at, bytes);
            file::give_memory(self.file(), self.path(), constants.chunks_at(), constants.bytes())
        });
        made.inspect_err(|_| {
            // Not from under one who took over.
            if self.control().making.load(Ordering::SeqCst) == self.mine() {
                file::take_memory_back(self.file(), from, bytes);
            }
        })
    }

    /// What the file has been given.
    fn memory(&self) -> u64 {
        self.file().metadata().map_or(0, |found| found.blocks().saturating_mul(512))
    }

    fn has_memory(&self) -> bool {
        self.memory() >= self.constants.memory_bytes()
    }

    fn chunk_range(&self) -> (usize, usize) {
        (self.constants.chunks_at() as usize, self.constants.bytes() as usize)
    }

    pub(super) fn give_chunk_memory(&self, index: u32) -> Result<()> {
        let (at, bytes) = (self.constants.chunk_at(index), self.constants.chunk_bytes);
        file::give_memory(self.file(), self.path(), at, bytes)
    }

    pub(super) fn take_chunk_memory_back(&self, index: u32) {
        file::take_memory_back(self.file(), self.constants.chunk_at(index), self.constants.chunk_bytes);
    }
}
