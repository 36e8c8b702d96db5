//! Gives the chunks their memory, and takes it back. That takes a while, so whoever comes first does it, a step at a time,
//! and the others wait for as much as they need; if that member dies, another one goes on.

use super::{
    Pool, Shared, file,
    signal::Waited,
    size::{Aim, LOOK_AGAIN},
    word::{FREE, State, Word},
};
use crate::{
    config::PoolHeld,
    device::{HUGE_PAGE, HugePages},
    error::Result,
};
use std::{os::unix::fs::MetadataExt, sync::atomic::Ordering};

/// What the word `making` says: 0, one of these, or, from `MAKERS` on, the member that makes the memory.
const MADE: u64 = 1;
/// There was no room. Members that waited are told; the next one tries again.
const FULL: u64 = 2;
/// For a reason that may be that member's alone, as a limit on its files: whoever waited tries it, and says what it finds.
const FAILED: u64 = 3;
const MAKERS: u64 = 1 << 32;
/// How many waits time out before another member makes the memory too: making it twice changes no contents, and the
/// member that is named as the maker may not know of it.
const TIME_OUTS_MAX: u32 = 500;
impl Pool {
    /// Has the memory of the chunks made, by this member or another, and at hand: of all chunks, or, in a pool that
    /// grows, of those that its members want, within what is free. Without it a copy would meet page faults, or a full
    /// /dev/shm. A pool that is held only for checkpoints makes nothing yet.
    pub(crate) fn make_memory(&self) -> Result<()> {
        self.make_for(self.shared.aim(LOOK_AGAIN))
    }

    /// Has as much memory made, or waits for it, as lets all members go on; the rest may come while they copy.
    pub(crate) fn make_least(&self) -> Result<()> {
        let aim = self.shared.aim(LOOK_AGAIN);
        // What has memory only while it is in use is made at once.
        self.make_for(if self.shared.keeps_memory() { Aim { target: aim.least, ..aim } } else { aim })
    }

    fn make_for(&self, aim: Aim) -> Result<()> {
        if self.shared.open_bytes() < aim.target {
            self.shared.make_once(aim)?;
            self.shared.meet();
        }
        Ok(())
    }

    /// Like `make_memory`, for a pool that others may have made smaller, or say so. A pool of a set size is never made
    /// smaller.
    pub(super) fn make_memory_anew(&self) -> Result<()> {
        if self.shared.constants.grows() { self.make_memory() } else { Ok(()) }
    }
}

/// How long a member that waits has waited for the maker that it found. Each maker gets its time.
#[derive(Debug, Default)]
struct Patience {
    maker: u64,
    made: u64,
    time_outs: u32,
}

impl Patience {
    /// Finds `maker` at work, who has made so much.
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
    /// Has what was made since the last look at hand. Returns whether there was anything.
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
        // Several threads may meet the same memory.
        self.sizes.at_hand.fetch_max(to, Ordering::AcqRel);
        self.begin_at_own_place();
        true
    }

    fn make_once(&self, aim: Aim) -> Result<()> {
        let control = self.control();
        let (mut waited, mut patience) = (false, Patience::default());
        loop {
            let found = control.making.load(Ordering::Acquire);
            // The words alone are not believed: if the memory were not there, a copy would end the program.
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
                    // After a time-out the maker may have died.
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

    /// What `making` says while this member makes the memory.
    fn mine(&self) -> u64 {
        MAKERS + u64::from(self.member)
    }

    fn is_another(&self, maker: u32) -> bool {
        maker != self.member && self.is_alive(maker)
    }

    /// Whether another member, or another thread of this one, makes the memory.
    fn goes_on(&self, maker: u32) -> bool {
        self.is_another(maker) || maker == self.member && self.sizes.is_making.load(Ordering::SeqCst)
    }

    /// The member that makes the memory, by what `making` says. A number that no member has is nobody's.
    fn maker(&self, found: u64) -> Option<u32> {
        let member = u32::try_from(found.checked_sub(MAKERS)?).ok()?;
        (member < self.constants.members).then_some(member)
    }

    fn make(&self, aim: Aim) -> Result<()> {
        let made = self.make_memory(aim);
        let told = match &made {
            Ok(()) => MADE,
            Err(crate::Error::PoolFull { needed, available, .. }) => {
                self.control().full_needed.store(*needed, Ordering::Release);
                self.control().full_available.store(*available, Ordering::Release);
                FULL
            }
            Err(_) => FAILED,
        };
        self.end_making(told);
        made
    }

    fn end_making(&self, told: u64) {
        // If another member took over, it knows better than this one.
        let _ = self.control().making.compare_exchange(self.mine(), told, Ordering::SeqCst, Ordering::Relaxed);
        self.control().made.wake_all();
    }

    /// Makes as much memory as `aim` says; if there is less room, as much as there is, but not less than the least.
    /// Changes no contents, so it may be done twice.
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
            // How much the chunks beyond the least take, more or less.
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
                // Others were faster to take the memory, or the system gives no more.
                Err(_) if at >= aim.least => break,
                Err(crate::Error::PoolFull { .. }) if to > aim.least => to = aim.least,
                Err(failed) => return Err(failed),
            }
        }
        Ok(())
    }

    /// Makes chunks from `from` on, not beyond `to`, and what the tables say of them; returns their end.
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
            // Memory is not taken from under a member that took over, nor from chunks that somebody still holds since
            // the pool was made smaller.
            if self.control().making.load(Ordering::SeqCst) == self.mine() {
                // A member whose time was over may have made some of the memory, and said so.
                self.take_free_memory_back(from.max(self.control().made_bytes.load(Ordering::SeqCst)));
            }
        })
    }

    /// Says that the first `bytes` bytes have their memory, and wakes who waits for it, or for a chunk.
    fn tell_made(&self, bytes: u64) {
        self.control().made_bytes.store(bytes, Ordering::SeqCst);
        self.control().made.wake_all();
        self.control().freed.wake_all();
    }

    /// Has chunks from `to` on taken no more, and takes the memory of the free ones back, unless another member, or another
    /// thread of this one, makes or takes memory. A chunk that is being taken meanwhile is given back, or stays with its memory.
    pub(super) fn shrink(&self, to: u64) {
        let is_making = &self.sizes.is_making;
        if is_making.swap(true, Ordering::SeqCst) {
            return;
        }
        self.shrink_alone(to);
        is_making.store(false, Ordering::SeqCst);
    }

    /// The same for the one thread of this process that does so.
    fn shrink_alone(&self, to: u64) {
        let found = self.control().making.load(Ordering::Acquire);
        let is_busy = self.maker(found).is_some_and(|maker| maker == self.member || self.is_another(maker));
        let making = &self.control().making;
        if is_busy || making.compare_exchange(found, self.mine(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let made = self.see();
        // A pool that is as small already may still have the memory of chunks that were in use then.
        if to <= made {
            self.control().made_bytes.store(to, Ordering::SeqCst);
            if self.keeps_memory() {
                self.take_free_memory_back(to);
            }
        }
        self.end_making(MADE);
    }

    /// Takes the memory back of free chunks from `from` on, whoever made it.
    pub(super) fn take_free_memory_back(&self, from: u64) {
        // Once, as it may become another at t1.
        let chunk_bytes = self.chunk_bytes();
        let first = from.div_ceil(chunk_bytes) as usize;
        let mine = Word { state: State::Filling, member: self.member_bits(), tag: 0 }.bits();
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

    /// How much memory the file has been given.
    fn memory(&self) -> u64 {
        self.file().metadata().map_or(0, |found| found.blocks().saturating_mul(512))
    }

    /// How much memory the chunks take, more or less, in a pool that gives it only to chunks in use.
    pub(super) fn memory_in_use(&self) -> u64 {
        let made = self.made();
        self.memory().saturating_sub(self.constants.memory_bytes(made) - made)
    }

    /// How far the chunks have their memory: as the pool's word says, if the file has been given that much.
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

    /// Looks how far other members have made the memory. Asks the system only if their word has changed since: whoever takes memory
    /// back has it say less before.
    pub(super) fn see(&self) -> u64 {
        let told = self.control().made_bytes.load(Ordering::SeqCst);
        let made = if told == self.sizes.checked.load(Ordering::Acquire) { told } else { self.made() };
        self.sizes.seen.fetch_max(made, Ordering::AcqRel);
        made
    }

    /// Whether chunks keep their memory while nobody has anything in them.
    pub(super) fn keeps_memory(&self) -> bool {
        self.constants.held() == PoolHeld::Always
    }

    /// Members begin at different places, and rarely want the same chunk.
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
