//! Which members live, and what the dead leave behind.

use super::{
    Pool, Shared, file,
    layout::SURVIVOR,
    listing::records_of,
    sealed::{Sealed, owner_of},
    word::{FREE, State, Word, WordRead},
};
use crate::{
    config::PoolHeld,
    device::{LockFile, LockOutcome},
};
use std::{fs, sync::atomic::Ordering};

impl Pool {
    /// Whether this member's process lives and is still in the pool.
    #[cfg(test)]
    pub(crate) fn is_alive(&self, member: u32) -> bool {
        self.shared.is_alive(member)
    }

    /// Says that the programs of all members wait for the copies of a checkpoint, or are about to: this one has heard from
    /// all at t1.
    pub(crate) fn begin_copying(&self, checkpoint: u64) {
        self.shared.control().copying.store(checkpoint as u32, Ordering::SeqCst);
    }

    /// Says that this member's program waits no longer.
    pub(crate) fn end_copying(&self) {
        let copying = self.shared.control().copying.load(Ordering::SeqCst);
        let was = self.shared.member_entry().copied.swap(copying, Ordering::SeqCst);
        // If several members end at the same time, at least the last one sees that nobody is left.
        if was != copying && !self.others_copy() {
            self.shared.control().copied.wake_all();
        }
    }

    /// Whether the program of any other member waits for a copy, or is about to. It may have died, or be far behind.
    pub(crate) fn others_copy(&self) -> bool {
        let copying = self.shared.control().copying.load(Ordering::SeqCst);
        let mut others = (0..).zip(self.shared.member_entries()).filter(|(member, _)| *member != self.member());
        others.any(|(_, entry)| entry.copied.load(Ordering::SeqCst) != copying)
    }

    /// Sleeps while `hold` says so. It looks again once the programs of all members have copied, once this member's
    /// shard is staged (`tell_copied`), when somebody waits for a chunk, and every 20 ms.
    pub(crate) fn hold_while(&self, hold: impl Fn() -> bool) {
        while hold() {
            self.shared.control().copied.wait(|| (!hold()).then_some(()));
        }
    }

    /// Has all threads that hold back look again.
    pub(crate) fn tell_copied(&self) {
        self.shared.control().copied.wake_all();
    }

    /// Has `work` done for dead members, unless another member does it already.
    pub(crate) fn look_after_dead(&self, work: impl FnOnce()) {
        let locks = &self.shared.locks;
        if matches!(locks.try_lock(SURVIVOR), Ok(LockOutcome::Held)) {
            work();
            let _ = locks.unlock(SURVIVOR);
        }
    }

    /// The members that have ended, and that hold chunks or had a sealed record.
    pub(crate) fn dead(&self) -> Vec<u32> {
        let shared = &*self.shared;
        shared.see();
        let mut leaves: Vec<bool> =
            shared.member_entries().iter().map(|entry| entry.sealed.load(Ordering::Acquire) != 0).collect();
        for entry in shared.chunk_entries() {
            if let WordRead::Taken(word) = WordRead::of(entry.word.load(Ordering::Acquire), shared.constants.members) {
                leaves[usize::from(word.member)] = true;
            }
        }
        let members = 0..shared.constants.members;
        members.filter(|&member| leaves[member as usize] && !shared.is_alive(member)).collect()
    }

    /// Frees what a dead member holds, whatever its state, and forgets its records: for a member whose records were
    /// completed, or found unsealed. Records that were sealed and cannot be read stay noted, and so do `lost` others, which could
    /// not be completed: whoever restores next is told. Returns `false` and does nothing if the member lives.
    pub(crate) fn free_of(&self, dead: u32, lost: u32) -> bool {
        let shared = &*self.shared;
        if dead >= shared.constants.members || shared.is_alive(dead) {
            return false;
        }
        shared.note_lost(dead, self.sealed(dead).len() as u32, lost);
        shared.forget_records(dead);
        for (index, entry) in shared.chunk_entries().iter().enumerate() {
            let bits = entry.word.load(Ordering::Acquire);
            if let WordRead::Taken(word) = WordRead::of(bits, shared.constants.members)
                && u32::from(word.member) == dead
            {
                shared.free_abandoned(index, bits);
            }
        }
        true
    }
}

impl Shared {
    pub(super) fn is_alive(&self, member: u32) -> bool {
        // In doubt the member lives, and what is its own stays its own.
        member == self.member || self.locks.is_locked_in(u64::from(member), 1).unwrap_or(true)
    }

    /// Frees a chunk whose word is `bits`, and that no living member has. The chunk is made ours first: if several come
    /// to free it one does, and nobody takes its memory back under somebody else.
    pub(super) fn free_abandoned(&self, index: usize, bits: u64) {
        if self.held[index].swap(true, Ordering::Acquire) {
            return;
        }
        let mine = Word { state: State::Filling, member: self.member_bits(), tag: 0 }.bits();
        let word = &self.chunk_entries()[index].word;
        if word.compare_exchange(bits, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.free(index, mine);
        }
        self.held[index].store(false, Ordering::Release);
    }

    /// Frees a chunk that is ours and whose word is `bits`, and tells a member that waits.
    pub(super) fn free(&self, index: usize, bits: u64) {
        let word = &self.chunk_entries()[index].word;
        if self.constants.held() == PoolHeld::Checkpoint && word.load(Ordering::Relaxed) == bits {
            self.take_chunk_memory_back(index as u32);
        }
        // A chunk whose word another process changed is ours no longer, and stays as it is.
        if word.compare_exchange(bits, FREE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.control().freed.wake_one();
            self.control().turn.wake_all();
        }
    }

    /// Removes the records of a dead member. A record that cannot be read stays until the pool goes: it tells the next
    /// start why its shard is lost.
    fn forget_records(&self, member: u32) {
        let id = self.constants.id;
        for rank in records_of(&self.directory, id).unwrap_or_default() {
            let path = file::path_of(&self.directory, id, Some(rank));
            let is_readable = Sealed::open(&self.directory, id, rank).is_ok();
            if is_readable && owner_of(&path, id, rank) == Some(member) {
                let _ = fs::remove_file(path);
            }
        }
    }
}
