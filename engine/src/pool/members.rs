//! Which members are alive, and the cleanup after dead members.

use super::{
    Pool, Shared, file,
    layout::SURVIVOR,
    listing::records_of,
    sealed::{Sealed, owner_of},
    word::{ChunkState, FREE, Word, WordRead},
};
use crate::{
    config::PoolHeld,
    device::{LockFile as _, LockOutcome},
};
use std::{fs, sync::atomic::Ordering};

impl Pool {
    /// Whether this member's process is alive and still in the pool.
    #[cfg(test)]
    pub(crate) fn is_alive(&self, member: u32) -> bool {
        self.shared.is_alive(member)
    }

    /// Announces that the programs of all members wait for the copies of a checkpoint, or soon will: this member has
    /// heard from all at t1.
    pub(crate) fn begin_copying(&self, checkpoint: u64) {
        self.shared.control().copying.store(checkpoint as u32, Ordering::SeqCst);
    }

    /// Announces that this member's program waits no longer.
    pub(crate) fn end_copying(&self) {
        let copying = self.shared.control().copying.load(Ordering::SeqCst);
        let was = self.shared.member_entry().copied.swap(copying, Ordering::SeqCst);
        // If several members end at the same time, at least the last one sees that none is left.
        if was != copying && !self.others_copy() {
            self.shared.control().copied.wake_all();
        }
    }

    /// Whether the program of any other member waits for a copy, or soon will. That member may have died, or be far
    /// behind.
    pub(crate) fn others_copy(&self) -> bool {
        let copying = self.shared.control().copying.load(Ordering::SeqCst);
        let mut others = (0..).zip(self.shared.member_entries()).filter(|(member, _)| *member != self.member());
        others.any(|(_, entry)| entry.copied.load(Ordering::SeqCst) != copying)
    }

    /// Sleeps while `hold` returns true. Checks again when the programs of all members have copied, when this member's
    /// shard is staged (`tell_copied`), when a member waits for a chunk, and every 20 ms.
    pub(crate) fn hold_while(&self, hold: impl Fn() -> bool) {
        while hold() {
            self.shared.control().copied.wait(|| (!hold()).then_some(()));
        }
    }

    /// Makes all postponed threads check again.
    pub(crate) fn tell_copied(&self) {
        self.shared.control().copied.wake_all();
    }

    /// Runs `work` for dead members, unless another member is already doing it.
    pub(crate) fn look_after_dead(&self, work: impl FnOnce()) {
        let locks = &self.shared.locks;
        if matches!(locks.try_lock(SURVIVOR), Ok(LockOutcome::Done)) {
            work();
            let _ = locks.unlock(SURVIVOR);
        }
    }

    /// The members that have ended and that hold chunks or had a sealed record.
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

    /// Frees everything that a dead member holds, in any state, and removes its records: for a member with records that
    /// were completed, or found unsealed. Sealed records that cannot be read stay noted, and so do `lost` others that
    /// could not be completed, so that the next restore reports them. Returns `false` and does nothing if the member is
    /// alive.
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
        // If in doubt, the member counts as alive and keeps its chunks.
        member == self.member || self.locks.is_locked_in(u64::from(member), 1).unwrap_or(true)
    }

    /// Frees a chunk with word `bits` that no living member has. Takes the chunk first: if several threads come to free
    /// it, one does, and none frees its memory while another uses it.
    pub(super) fn free_abandoned(&self, index: usize, bits: u64) {
        if self.held[index].swap(true, Ordering::Acquire) {
            return;
        }
        let mine = Word { state: ChunkState::Filling, member: self.member_bits(), tag: 0 }.bits();
        let word = &self.chunk_entries()[index].word;
        if word.compare_exchange(bits, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.free(index, mine);
        }
        self.held[index].store(false, Ordering::Release);
    }

    /// Frees a chunk of this process with the word `bits`, and wakes a waiting member.
    pub(super) fn free(&self, index: usize, bits: u64) {
        let word = &self.chunk_entries()[index].word;
        if self.constants.held() == PoolHeld::Checkpoint && word.load(Ordering::Relaxed) == bits {
            self.take_chunk_memory_back(index as u32);
        }
        // If another process changed the word, the chunk is no longer ours, and stays as it is.
        if word.compare_exchange(bits, FREE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.control().freed.wake_one();
            self.control().turn.wake_all();
        }
    }

    /// Removes the records of a dead member. An unreadable record stays until the pool is removed, so that the next
    /// start can report why its shard is lost.
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
