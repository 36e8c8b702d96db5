//! Allocates the chunks' memory, and frees it. Allocation takes time, so the first member that needs memory does it in
//! steps, and the others wait for the amount that they need. If that member dies, another goes on.

use super::{
    Pool, Shared, file,
    signal::Waited,
    size::{Aim, LOOK_AGAIN},
    word::{ChunkState, FREE, Word},
};
use crate::{
    config::PoolHeld,
    device::{HUGE_PAGE, HugePages},
    error::Result,
};
use std::{os::unix::fs::MetadataExt, sync::atomic::Ordering};

/// Values of the word `making`: 0, one of these, or, from `MAKERS` on, the member that makes the memory.
const MADE: u64 = 1;
/// There was no room. Waiting members get this result; the next member tries again.
const FULL: u64 = 2;
/// The cause may concern that member alone, such as a limit on its files. Each waiting member tries for itself and
/// reports its own result.
const FAILED: u64 = 3;
const MAKERS: u64 = 1 << 32;
/// Number of wait timeouts before another member makes the memory too. Making it twice changes no contents, and the
/// member named as the maker may not know that it is.
const TIME_OUTS_MAX: u32 = 500;
impl Pool {
    /// Makes the memory of the chunks, or waits until another member has made it: of all chunks, or, in a pool that
    /// grows, of those that its members want, within the free memory. Without it a copy would meet page faults, or a
    /// full /dev/shm. A pool that holds memory only during checkpoints makes nothing yet.
    pub(crate) fn make_memory(&self) -> Result<()> {
        self.make_for(self.shared.aim(LOOK_AGAIN))
    }

    /// Makes, or waits for, the least memory with which all members can go on; the rest may follow while they copy.
    pub(crate) fn make_least(&self) -> Result<()> {
        let aim = self.shared.aim(LOOK_AGAIN);
        // Memory that exists only while it is in use is made at once.
        self.make_for(if self.shared.keeps_memory() { Aim { target: aim.least, ..aim } } else { aim })
    }

    fn make_for(&self, aim: Aim) -> Result<()> {
        if self.shared.open_bytes() < aim.target {
            self.shared.make_once(aim)?;
            self.shared.meet();
        }
        Ok(())
    }

    /// Like `make_memory`, for a pool that others may have made smaller, or claim to have. A pool of fixed size is
    /// never made smaller.
    pub(super) fn make_memory_anew(&self) -> Result<()> {
        if self.shared.constants.grows() { self.make_memory() } else { Ok(()) }
    }
}

/// How long a waiting member has waited for the current maker. Each maker gets the full time.
#[derive(Debug, Default)]
struct Patience {
    maker: u64,
    made: u64,
    time_outs: u32,
}

impl Patience {
    /// Sees `maker` at work, with `made` bytes made so far.
    fn meets(&mut self, maker: u64, made: u64) {
        if (self.maker, self.made) != (maker, made) {
            *self = Patience { maker, made, time_outs: 0 };
        }
    }

    fn is_over(&self) -> bool {
        self.time_outs >= TIME_OUTS_MAX
    }
}

impl Shared {
    /// Makes the memory that was added since the last look usable for this process. Returns whether there was any.
    pub(super) fn meet(&self) -> bool {
        let from = self.sizes.at_hand.load(Ordering::Acquire);
        if self.control().made_bytes.load(Ordering::SeqCst) <= from {
            return false;
        }
        let to = self.made();
        self.sizes.seen.fetch_max(to, Ordering::AcqRel);
        if from >= to {
            return false;
        }
        if self.keeps_memory() {
            self.map.populate(self.constants.chunks_at() as usize + from as usize, (to - from) as usize);
        }
        // Several threads may find the same memory.
        self.sizes.at_hand.fetch_max(to, Ordering::AcqRel);
        self.begin_at_own_place();
        true
    }

    fn make_once(&self, aim: Aim) -> Result<()> {
        let control = self.control();
        let (mut waited, mut patience) = (false, Patience::default());
        loop {
            let found = control.making.load(Ordering::Acquire);
            // Check the words against the file: if the memory were not there, a copy would kill the program.
            let made = self.made();
            patience.meets(found, made);
            match found {
                _ if made >= aim.target => return Ok(()),
                FULL if waited && made < aim.least => {
                    let [needed, available] =
                        [&control.full_needed, &control.full_available].map(|n| n.load(Ordering::Acquire));
                    return Err(file::full(self.path(), needed, available));
                }
                _ if !patience.is_over() && self.maker(found).is_some_and(|maker| self.goes_on(maker)) => {
                    waited = true;
                    let changed = || {
                        let is_over = control.making.load(Ordering::SeqCst) != found;
                        (is_over || control.made_bytes.load(Ordering::SeqCst) >= aim.target).then_some(())
                    };
                    // After a timeout the maker may have died.
                    if control.made.wait(changed) == Waited::TimedOut {
                        patience.time_outs += 1;
                    }
                }
                _ => {
                    if control.making.compare_exchange(found, self.mine(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
                    {
                        self.sizes.is_making.store(true, Ordering::SeqCst);
                        let made = self.make(aim);
                        self.sizes.is_making.store(false, Ordering::SeqCst);
                        return made;
                    }
                }
            }
        }
    }

    /// Value of `making` while this member makes the memory.
    fn mine(&self) -> u64 {
        MAKERS + u64::from(self.member)
    }

    fn is_another(&self, maker: u32) -> bool {
        maker != self.member && self.is_alive(maker)
    }

    /// Whether another member, or another thread of this one, is making the memory.
    fn goes_on(&self, maker: u32) -> bool {
        self.is_another(maker) || maker == self.member && self.sizes.is_making.load(Ordering::SeqCst)
    }

    /// The member that makes the memory, from the value of `making`. `None` for a number that no member has.
    fn maker(&self, found: u64) -> Option<u32> {
        let member = u32::try_from(found.checked_sub(MAKERS)?).ok()?;
        (member < self.constants.members).then_some(member)
    }

    fn make(&self, aim: Aim) -> Result<()> {
        let made = self.make_memory(aim);
        let outcome = match &made {
            Ok(()) => MADE,
            Err(crate::Error::PoolFull { needed, available, .. }) => {
                self.control().full_needed.store(*needed, Ordering::Release);
                self.control().full_available.store(*available, Ordering::Release);
                FULL
            }
            Err(_) => FAILED,
        };
        self.end_making(outcome);
        made
    }

    fn end_making(&self, outcome: u64) {
        // If another member took over, its result is newer than this one.
        let _ = self.control().making.compare_exchange(self.mine(), outcome, Ordering::SeqCst, Ordering::Relaxed);
        self.control().made.wake_all();
    }

    /// Makes as much memory as `aim` asks; with less room, as much as fits, but not less than the least. Changes no
    /// contents, so it may run twice.
    fn make_memory(&self, aim: Aim) -> Result<()> {
        let (constants, from) = (&self.constants, self.made());
        if from >= aim.target {
            // Another member has made it meanwhile.
            return Ok(());
        }
        // Another member may have begun to make it.
        let of_chunks = |bytes: u64| if self.keeps_memory() { bytes } else { 0 };
        let needed = |to: u64| constants.memory_bytes(to) - to + of_chunks(to);
        let (memory, available) = (self.memory(), file::available(self.file()));
        let missing = |to: u64| needed(to).saturating_sub(memory);
        let mut to = aim.target;
        if missing(to) > available {
            // Approximate size of the chunks beyond the least.
            let beyond = missing(to).saturating_sub(available).next_multiple_of(HUGE_PAGE as u64);
            to = to.saturating_sub(beyond).max(aim.least).max(from);
        }
        if missing(to) > available {
            return Err(file::full(self.path(), missing(to), available));
        }
        let (mut pages, mut at) = (HugePages::of(to - from), from);
        while at < to {
            match self.make_step(at, to, &mut pages) {
                Ok(end) => {
                    self.tell_made(end);
                    at = end;
                }
                // Other processes took the memory first, or the system gives no more.
                Err(_) if at >= aim.least => break,
                Err(crate::Error::PoolFull { .. }) if to > aim.least => to = aim.least,
                Err(failed) => return Err(failed),
            }
        }
        Ok(())
    }

    /// Makes chunks from `from` on, not beyond `to`, and their table entries; returns their end.
    fn make_step(&self, from: u64, to: u64, pages: &mut HugePages) -> Result<u64> {
        let constants = &self.constants;
        let table_from = constants.tables_bytes(0);
        file::give_memory(self.file(), self.path(), table_from, constants.tables_bytes(to) - table_from)?;
        self.sizes.seen.fetch_max(to, Ordering::AcqRel);
        if !self.keeps_memory() {
            return Ok(to);
        }
        let first = constants.chunks_at();
        let made = file::give_huge(self.file(), self.path(), &self.map, pages, (first + from, first + to));
        let made = made.map(|end| end - first);
        #[cfg(test)]
        let made = made.and_then(|end| self.sizes.fails.lock().unwrap().map_or(Ok(end), |fails| Err(fails(self))));
        made.inspect_err(|_| {
            // Do not free memory that a member that took over may use, nor chunks that are still held since the pool
            // was made smaller.
            if self.control().making.load(Ordering::SeqCst) == self.mine() {
                // A member that took too long may have made some of the memory, and recorded it.
                self.take_free_memory_back(from.max(self.control().made_bytes.load(Ordering::SeqCst)));
            }
        })
    }

    /// Records that the first `bytes` bytes have memory, and wakes the members that wait for memory or for a chunk.
    fn tell_made(&self, bytes: u64) {
        self.control().made_bytes.store(bytes, Ordering::SeqCst);
        self.control().made.wake_all();
        self.control().freed.wake_all();
    }

    /// Closes chunks from `to` on, and frees the memory of the free ones, unless another member, or another thread of
    /// this one, is making or freeing memory. A chunk that is being taken meanwhile is given back, or keeps its memory.
    pub(super) fn shrink(&self, to: u64) {
        let is_making = &self.sizes.is_making;
        if is_making.swap(true, Ordering::SeqCst) {
            return;
        }
        self.shrink_alone(to);
        is_making.store(false, Ordering::SeqCst);
    }

    /// The same, for the only thread of this process that does it.
    fn shrink_alone(&self, to: u64) {
        let found = self.control().making.load(Ordering::Acquire);
        let is_busy = self.maker(found).is_some_and(|maker| maker == self.member || self.is_another(maker));
        let making = &self.control().making;
        if is_busy || making.compare_exchange(found, self.mine(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let made = self.see();
        // A pool that already has this size may still have the memory of chunks that were in use then.
        if to <= made {
            self.control().made_bytes.store(to, Ordering::SeqCst);
            if self.keeps_memory() {
                self.take_free_memory_back(to);
            }
        }
        self.end_making(MADE);
    }

    /// Frees the memory of free chunks from `from` on, regardless of the member that made it.
    pub(super) fn take_free_memory_back(&self, from: u64) {
        // Read once, because it may change at t1.
        let chunk_bytes = self.chunk_bytes();
        let first = from.div_ceil(chunk_bytes) as usize;
        let mine = Word { state: ChunkState::Filling, member: self.member_bits(), tag: 0 }.bits();
        for (index, entry) in self.chunk_entries().iter().enumerate().skip(first) {
            // Another member took over, and may have made the memory by now.
            if self.control().making.load(Ordering::SeqCst) != self.mine() {
                return;
            }
            if self.held[index].swap(true, Ordering::Acquire) {
                continue;
            }
            let word = &entry.word;
            if word.compare_exchange(FREE, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                let at = self.constants.chunks_at() + index as u64 * chunk_bytes;
                file::take_memory_back(self.file(), at, chunk_bytes);
                let _ = word.compare_exchange(mine, FREE, Ordering::SeqCst, Ordering::Relaxed);
            }
            self.held[index].store(false, Ordering::Release);
        }
    }

    /// Whether chunks beyond the first `made` bytes still have memory.
    pub(super) fn has_more_than(&self, made: u64) -> bool {
        let tables = self.constants.memory_bytes(self.constants.bytes()) - self.constants.bytes();
        self.memory() > made.saturating_add(tables).saturating_add(HUGE_PAGE as u64)
    }

    /// Bytes of memory that the file has.
    fn memory(&self) -> u64 {
        self.file().metadata().map_or(0, |found| found.blocks().saturating_mul(512))
    }

    /// Approximate memory of the chunks, in a pool that gives memory only to chunks in use.
    pub(super) fn memory_in_use(&self) -> u64 {
        let made = self.made();
        self.memory().saturating_sub(self.constants.memory_bytes(made) - made)
    }

    /// End of the chunks that have memory: the value of `made_bytes`, if the file has that much memory.
    pub(super) fn made(&self) -> u64 {
        let made = self.control().made_bytes.load(Ordering::SeqCst);
        if made > self.constants.bytes() {
            return 0;
        }
        let of_chunks = if self.keeps_memory() { made } else { 0 };
        let needed = self.constants.memory_bytes(made) - made + of_chunks;
        if self.memory() < needed {
            return 0;
        }
        self.sizes.checked.store(made, Ordering::Release);
        made
    }

    /// Looks how much memory other members have made. Calls the system only if `made_bytes` has changed since: a member
    /// that frees memory lowers it first.
    pub(super) fn see(&self) -> u64 {
        let counted = self.control().made_bytes.load(Ordering::SeqCst);
        let made = if counted == self.sizes.checked.load(Ordering::Acquire) { counted } else { self.made() };
        self.sizes.seen.fetch_max(made, Ordering::AcqRel);
        made
    }

    /// Whether chunks keep their memory while they are empty.
    pub(super) fn keeps_memory(&self) -> bool {
        self.constants.held() == PoolHeld::Always
    }

    /// Members start at different chunks, so they rarely compete for the same one.
    fn begin_at_own_place(&self) {
        let (member, members) = (u64::from(self.member), u64::from(self.constants.members));
        self.cursor.store((self.open_chunks() as u64 * member / members) as u32, Ordering::Relaxed);
    }

    pub(super) fn chunk_at(&self, index: u32) -> u64 {
        self.constants.chunks_at() + u64::from(index) * self.chunk_bytes()
    }

    pub(super) fn give_chunk_memory(&self, index: u32) -> Result<()> {
        file::give_memory(self.file(), self.path(), self.chunk_at(index), self.chunk_bytes())
    }

    pub(super) fn take_chunk_memory_back(&self, index: u32) {
        file::take_memory_back(self.file(), self.chunk_at(index), self.chunk_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_maker_gets_its_time() {
        let mut patience = Patience::default();
        let mut wait_for = |maker, made| {
            patience.meets(maker, made);
            patience.time_outs += 1;
            patience.is_over()
        };
        assert_eq!((0..2 * TIME_OUTS_MAX).filter(|round| wait_for(MAKERS + u64::from(round % 2), 0)).count(), 0);
        assert_eq!((0..2 * TIME_OUTS_MAX).filter(|round| wait_for(MAKERS, u64::from(*round))).count(), 0);
        assert_eq!((1..).find(|_| wait_for(MAKERS, 0)), Some(TIME_OUTS_MAX));
    }
}
