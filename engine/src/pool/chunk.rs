//! One chunk of the pool, held by this process until it is dropped.

use super::{
    Pool, file,
    layout::ChunkEntry,
    word::{ChunkState, FREE, Word},
};
use crate::{
    device::forks,
    error::{Error, Result},
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The bits of a word with the chunk's state.
const STATE: u64 = 0xffff;

#[derive(Debug)]
pub(crate) struct Chunk {
    pool: Pool,
    index: u32,
    /// The value that this process wrote to the chunk's word; if the word differs, the chunk is no longer ours.
    word: AtomicU64,
    pub(super) ticket: AtomicU64,
}

impl Chunk {
    pub(super) fn new(pool: Pool, index: u32, word: u64) -> Chunk {
        Chunk { pool, index, word: AtomicU64::new(word), ticket: AtomicU64::new(0) }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    #[allow(unsafe_code)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let (at, bytes) = self.range();
        // SAFETY: inside the mapping. This process's `held` and the pool's word keep all other users of this engine
        // away; both were set before this chunk was made and are cleared when it is dropped.
        unsafe { std::slice::from_raw_parts_mut(at, bytes) }
    }

    #[allow(unsafe_code)]
    pub(crate) fn bytes(&self) -> &[u8] {
        let (at, bytes) = self.range();
        // SAFETY: as in `bytes_mut`; a writer has the chunk to itself.
        unsafe { std::slice::from_raw_parts(at, bytes) }
    }

    fn range(&self) -> (*mut u8, usize) {
        let (shared, bytes) = (&self.pool.shared, self.pool.chunk_bytes() as usize);
        (shared.map.part(shared.chunk_at(self.index) as usize, bytes), bytes)
    }

    /// Whether a member waits for a chunk, or soon will: fewer than a quarter are free, and not all shards have room.
    pub(crate) fn is_wanted(&self) -> bool {
        let shared = &self.pool.shared;
        let (entries, open) = (shared.chunk_entries(), shared.open_chunks());
        let free = || entries.iter().take(open).filter(|entry| entry.word.load(Ordering::Relaxed) == FREE).count();
        shared.control().freed.has_waiters() || (!shared.holds_all() && free() < open / 4)
    }

    /// Whether others wait for their turn to write, possibly behind this chunk.
    pub(crate) fn holds_up(&self) -> bool {
        self.pool.shared.control().turn.has_waiters()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn entry(&self) -> &ChunkEntry {
        &self.pool.shared.chunk_entries()[self.index as usize]
    }

    /// Records that the chunk holds `bytes` bytes of `segment` of the shard `tag`, and queues it for writing.
    pub(crate) fn fill(&self, tag: u32, segment: u32, bytes: u64) -> Result<()> {
        let entry = self.entry();
        // Tickets begin at 1.
        let ticket = self.pool.shared.control().next_ticket.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.ticket.store(ticket, Ordering::Relaxed);
        entry.ticket.store(ticket, Ordering::Relaxed);
        entry.segment.store(segment, Ordering::Relaxed);
        entry.bytes.store(bytes, Ordering::Relaxed);
        self.change(ChunkState::Full, tag)
    }

    /// Marks the chunk as written, so that the next in line may start. The chunk is held until it is dropped.
    pub(crate) fn written(&self) -> Result<()> {
        self.change(ChunkState::Written, self.tag())?;
        self.pool.shared.control().turn.wake_all();
        Ok(())
    }

    /// Fails if the chunk belongs to another member now. Its state may change meanwhile: one thread writes the chunk
    /// while another hashes it.
    pub(crate) fn check(&self) -> Result<()> {
        match self.entry().word.load(Ordering::Acquire) {
            found if found & !STATE == self.word.load(Ordering::Relaxed) & !STATE && found & STATE != FREE => Ok(()),
            found => Err(self.changed(found)),
        }
    }

    fn changed(&self, found: u64) -> Error {
        let why = format!("chunk {} was changed by another process (its word is {found:#x})", self.index);
        file::refused(self.pool.shared.path(), why)
    }

    pub(super) fn tag(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Changes the chunk's word. A process that sees the new state also sees all earlier stores.
    pub(super) fn change(&self, state: ChunkState, tag: u32) -> Result<()> {
        let old = self.word.load(Ordering::Relaxed);
        debug_assert!(old & STATE <= state as u64, "the state of a chunk goes back");
        let new = Word { state, member: self.pool.shared.member_bits(), tag }.bits();
        let changed = self.entry().word.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed);
        changed.map_err(|found| self.changed(found))?;
        self.word.store(new, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let shared = &self.pool.shared;
        // In a forked child the chunk belongs to the parent.
        if forks() != shared.forks {
            return;
        }
        shared.free(self.index as usize, self.word.load(Ordering::Relaxed));
        shared.held[self.index as usize].store(false, Ordering::Release);
    }
}
