//! Taking a free chunk, at once or after a wait.

use super::{
    Chunk, Pool,
    layout::ChunkEntry,
    signal::Waited,
    word::{ChunkState, FREE, Word, WordRead},
};
use crate::{
    config::PoolHeld,
    error::{Error, Result},
};
use std::sync::atomic::Ordering;

impl Pool {
    /// Takes a free chunk, if there is one. Fails if the chunk cannot get its memory.
    pub(crate) fn take_now(&self) -> Option<Result<Chunk>> {
        let shared = &*self.shared;
        if shared.open_bytes() == 0
            && let Err(error) = self.make_memory()
        {
            return Some(Err(error));
        }
        // More memory may be made while all earlier chunks are in use.
        self.take_open().or_else(|| if shared.meet() { self.take_open() } else { None })
    }

    /// Takes one of the free chunks that have memory.
    fn take_open(&self) -> Option<Result<Chunk>> {
        let shared = &*self.shared;
        let (entries, open) = (shared.chunk_entries(), shared.open_chunks());
        let entries = &entries[..open.min(entries.len())];
        if entries.is_empty() {
            return None;
        }
        let mine = Word { state: ChunkState::Filling, member: shared.member_bits(), tag: 0 }.bits();
        let from = shared.cursor.load(Ordering::Relaxed) as usize % entries.len();
        for index in (from..entries.len()).chain(0..from) {
            let word = &entries[index].word;
            if word.load(Ordering::Relaxed) != FREE || shared.held[index].swap(true, Ordering::Acquire) {
                continue;
            }
            if word.compare_exchange(FREE, mine, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                shared.held[index].store(false, Ordering::Release);
                continue;
            }
            shared.cursor.store(index as u32 + 1, Ordering::Relaxed);
            let chunk = Chunk::new(self.clone(), index as u32, mine);
            // If the pool was made smaller meanwhile, the chunk is given back; the member that makes the pool smaller
            // sees that.
            if index >= shared.open_chunks() {
                continue;
            }
            let is_under_way = |entry: &ChunkEntry| {
                let found = WordRead::of(entry.word.load(Ordering::Relaxed), shared.constants.members);
                matches!(found, WordRead::Taken(word) if word.state != ChunkState::Filling)
            };
            // On an error the chunk is dropped, and is free again.
            let memory = match self.held() {
                PoolHeld::Always => Ok(()),
                PoolHeld::Checkpoint => shared.give_chunk_memory(index as u32),
            };
            return match memory {
                // There will be memory once a chunk in progress has been written.
                Err(Error::PoolFull { .. }) if entries.iter().any(is_under_way) => None,
                memory => Some(memory.map(|()| chunk)),
            };
        }
        None
    }

    /// Waits for a free chunk. Calls `reclaim` from time to time, which may free chunks of dead members.
    pub(crate) fn take(&self, reclaim: &dyn Fn()) -> Result<Chunk> {
        loop {
            if let Some(taken) = self.take_now() {
                return taken;
            }
            let look = || {
                // Postponed threads see that this one waits.
                self.tell_copied();
                self.take_now()
            };
            match self.shared.control().freed.wait(look) {
                Waited::Ready(taken) => return taken,
                Waited::Woken => {}
                Waited::TimedOut => {
                    self.repair();
                    self.make_memory_anew()?;
                    reclaim();
                }
            }
        }
    }

    /// Frees chunks that have no owner but an occupied word: words that no member writes, and words that name this
    /// member although it does not hold the chunk. Only this member can tell. It also repairs at t1, because it may
    /// never wait for a chunk itself while others do.
    pub(crate) fn repair(&self) {
        let shared = &*self.shared;
        shared.see();
        for (index, entry) in shared.chunk_entries().iter().enumerate() {
            let bits = entry.word.load(Ordering::Acquire);
            let nobodys = match WordRead::of(bits, shared.constants.members) {
                WordRead::Free => false,
                WordRead::Taken(word) => word.member == shared.member_bits(),
                WordRead::Garbage => true,
            };
            // Leave a chunk alone if a thread of ours holds it.
            if nobodys {
                shared.free_abandoned(index, bits);
            }
        }
    }
}
