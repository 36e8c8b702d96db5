//! The size of a pool that sizes itself: the sum of its members' needs, within the free memory.
//!
//! Each member writes the size of its next shard to its own word. The pool needs the sum, and room for the data that
//! members still have in it; `making` allocates the memory. No member decides for the others: any member that finds the
//! pool too small makes it larger. The chunk size comes from the all-reduce at t1, when no member has a chunk of this
//! job, so all members get the same one.

use super::{Pool, Shared, available::Available, sizes::LastLook, word::WordRead};
use crate::{
    device::HUGE_PAGE,
    ground::Instant,
    space::format::{BLOCK_BYTES, PoolBound},
};
use std::{
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

/// Maximum age of a look at the free memory; it is renewed earlier if more is needed.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The pool's size and need at one instant, in bytes. One snapshot, because each look costs a system call.
#[derive(Debug, Clone, Copy)]
struct Now {
    made: u64,
    needed: u64,
}

/// Target size of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aim {
    pub(super) target: u64,
    /// The result of `Shared::least`.
    pub(super) least: u64,
}

impl Pool {
    /// Bytes of all chunks; in a pool that grows, of the chunks that have memory now, made by any member, or will have
    /// it soon.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        let shared = &*self.shared;
        if shared.constants.grows() { shared.wanted_bytes(shared.now()) } else { shared.constants.bytes() }
    }

    /// Bytes of all chunks that this process can take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        if self.shared.constants.grows() { self.shared.open_bytes() } else { self.shared.constants.bytes() }
    }

    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.shared.chunk_bytes()
    }

    /// Announces the size of this member's next shard: `bytes` bytes, and room in `chunks` more chunks.
    pub(crate) fn want(&self, bytes: u64, chunks: u32) {
        let entry = self.shared.member_entry();
        entry.wanted_bytes.store(bytes, Ordering::SeqCst);
        entry.wanted_chunks.store(chunks, Ordering::SeqCst);
    }

    /// Announces that the next shard takes `bytes` more.
    pub(crate) fn want_more(&self, bytes: u64) {
        let wanted = &self.shared.member_entry().wanted_bytes;
        wanted.store(wanted.load(Ordering::SeqCst).saturating_add(bytes), Ordering::SeqCst);
    }

    /// Announces that the next shard takes `bytes` less.
    pub(crate) fn want_less(&self, bytes: u64) {
        let wanted = &self.shared.member_entry().wanted_bytes;
        wanted.store(wanted.load(Ordering::SeqCst).saturating_sub(bytes), Ordering::SeqCst);
    }

    /// Number of bytes that are needed but not available yet.
    pub(crate) fn lacks(&self) -> u64 {
        let shared = &*self.shared;
        let needed = if shared.constants.grows() { shared.now().needed } else { shared.constants.bytes() };
        needed.saturating_sub(shared.sizes.at_hand.load(Ordering::Acquire))
    }

    /// The values of which the members take the maximum at t1: the largest shard, and the complement of the largest
    /// chunk that the pool has room for.
    pub(crate) fn chunk_facts(&self) -> [u64; 2] {
        let shared = &*self.shared;
        if !shared.constants.grows() {
            return [0, !u64::MAX];
        }
        // Memory that was made is certain; memory that is made only on use may be taken by others by now.
        let (age_max, there) = match shared.keeps_memory() {
            true => (Duration::MAX, shared.open_bytes()),
            false => (Duration::ZERO, 0),
        };
        let room = shared.limit(shared.now().needed, age_max).0.max(there);
        let largest = room / (2 * u64::from(shared.constants.members));
        [shared.member_entry().wanted_bytes.load(Ordering::SeqCst), !largest]
    }

    /// Sets the chunk size from the maximum of `chunk_facts` over all members: two chunks for the largest shard, within
    /// the pool's limit. Only while no member has a chunk.
    pub(crate) fn set_chunk(&self, [shard, room]: [u64; 2]) {
        let shared = &*self.shared;
        let constants = &shared.constants;
        if !constants.grows() {
            return;
        }
        let suits = (shard / 2).min(!room).max(BLOCK_BYTES);
        let chunk = (1 << suits.ilog2()).clamp(constants.chunk_bytes, constants.chunk_bytes_max);
        shared.sizes.chunk_bytes.store(chunk, Ordering::Release);
    }

    /// Whether the pool has all the memory that it should have now.
    pub(crate) fn is_made(&self) -> bool {
        self.shared.open_bytes() >= self.shared.aim(LOOK_AGAIN).target
    }

    /// Fits the pool at t1, after all members have announced their needs and before they take chunks. A pool that has
    /// memory only for chunks in use opens no more chunks than fit in memory now.
    pub(crate) fn fit(&self) {
        let shared = &*self.shared;
        if shared.constants.grows() && !shared.keeps_memory() {
            let Now { made, needed } = shared.now();
            let to = shared.rounded(shared.limit(needed, LOOK_AGAIN).0.max(shared.least()));
            if to < made {
                shared.shrink(to);
            }
        }
    }

    /// Whether chunks keep their memory while they are empty.
    pub(crate) fn keeps_memory(&self) -> bool {
        self.shared.keeps_memory()
    }

    /// The limit on the size of the pool.
    pub(crate) fn bound(&self) -> PoolBound {
        let shared = &*self.shared;
        if !shared.constants.grows() {
            return PoolBound::Set;
        }
        let now = shared.now();
        if now.needed <= shared.wanted_bytes(now) {
            return PoolBound::Needed;
        }
        shared.looked().map_or(PoolBound::Needed, |look| look.limit.1)
    }

    /// Frees memory that other processes need, or that no member needs any more. Called between checkpoints; chunks in
    /// use stay.
    pub(crate) fn adapt(&self) {
        let shared = &*self.shared;
        if !shared.constants.grows() || !shared.keeps_memory() {
            return;
        }
        let (made, aim) = (shared.made(), shared.aim(Duration::ZERO));
        let room = shared.room();
        let to = match () {
            () if room.is_short(made) => room.limit(made).0.min(aim.target),
            () if aim.target <= made / 2 => aim.target,
            () => made,
        };
        let to = shared.rounded(to.max(aim.least)).min(made);
        // Chunks that were in use when the pool was made smaller still have their memory.
        if to < made || shared.has_more_than(made) {
            shared.shrink(to);
        }
    }
}

impl Shared {
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.sizes.chunk_bytes.load(Ordering::Acquire)
    }

    /// Bytes of the chunks that may be taken.
    pub(super) fn open_bytes(&self) -> u64 {
        let at_hand = self.sizes.at_hand.load(Ordering::Acquire);
        // Another member may have made the pool smaller since.
        if self.constants.grows() { at_hand.min(self.control().made_bytes.load(Ordering::SeqCst)) } else { at_hand }
    }

    pub(super) fn open_chunks(&self) -> usize {
        (self.open_bytes() / self.chunk_bytes()) as usize
    }

    /// Whether all shards have room, so that no member waits for another's chunk.
    pub(super) fn holds_all(&self) -> bool {
        self.constants.grows() && self.now().needed <= self.open_bytes()
    }

    /// The pool's size and need. The need is the sum over the members of their wants, in whole chunks, or of the chunks
    /// that they hold, if that is more. A member may want less as soon as it has saved, while others still come to take
    /// their chunks. The words may hold any value.
    fn now(&self) -> Now {
        let made = self.see();
        let (chunk, mut taken) = (self.chunk_bytes(), vec![0; self.constants.members as usize]);
        for entry in self.chunk_entries() {
            if let WordRead::Taken(word) = WordRead::of(entry.word.load(Ordering::Relaxed), self.constants.members) {
                taken[usize::from(word.member)] += 1;
            }
        }
        let needed = self.member_entries().iter().zip(taken).map(|(entry, taken)| {
            let chunks = u64::from(entry.wanted_chunks.load(Ordering::SeqCst));
            let wanted = entry.wanted_bytes.load(Ordering::SeqCst).div_ceil(chunk).saturating_add(chunks);
            wanted.max(taken).saturating_mul(chunk)
        });
        Now { made, needed: needed.fold(0, u64::saturating_add) }
    }

    /// With fewer bytes than this, members could wait for each other forever.
    fn least(&self) -> u64 {
        self.rounded((u64::from(self.constants.members) + 1).saturating_mul(self.chunk_bytes()))
    }

    /// Bytes that have memory at the instant of `now`, or will have it soon.
    fn wanted_bytes(&self, now: Now) -> u64 {
        if now.needed > 0 { now.made.max(self.aim_at(now, LOOK_AGAIN).target) } else { now.made }
    }

    /// Target size of the pool. `look_age`: maximum age of the look at the free memory, if no more is needed since.
    pub(super) fn aim(&self, look_age: Duration) -> Aim {
        if !self.constants.grows() {
            let all = self.constants.bytes();
            return Aim { target: all, least: all };
        }
        self.aim_at(self.now(), look_age)
    }

    fn aim_at(&self, Now { made, needed }: Now, look_age: Duration) -> Aim {
        let least = self.least();
        let needed = needed.max(least);
        let within = if needed <= made { needed } else { needed.min(self.limit(needed, look_age).0.max(made)) };
        Aim { target: self.rounded(within).max(least), least }
    }

    /// Rounds up to whole chunks, and to whole huge pages if one fits.
    fn rounded(&self, bytes: u64) -> u64 {
        let chunks = bytes.checked_next_multiple_of(self.chunk_bytes()).unwrap_or(bytes);
        let huge = HUGE_PAGE as u64;
        let whole = if chunks >= huge { chunks.checked_next_multiple_of(huge).unwrap_or(chunks) } else { chunks };
        whole.min(self.constants.bytes())
    }

    fn room(&self) -> Available {
        #[cfg(test)]
        if let Some(room) = *self.sizes.room.lock().unwrap() {
            return room;
        }
        Available::look(&self.directory)
    }

    fn looked(&self) -> Option<LastLook> {
        *self.sizes.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pool's limit. Looks again if more is `needed` than at the last look, or if that look is older than
    /// `age_max`.
    fn limit(&self, needed: u64, age_max: Duration) -> (u64, PoolBound) {
        if let Some(look) = self.looked()
            && needed <= look.needed
            && look.at.elapsed() <= age_max
        {
            return look.limit;
        }
        let held = if self.keeps_memory() { self.made() } else { self.memory_in_use() };
        let limit = self.room().limit(held);
        let look = LastLook { at: Instant::now(), needed, limit };
        *self.sizes.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
        limit
    }
}
