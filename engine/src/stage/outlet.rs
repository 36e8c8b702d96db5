//! Outlets: the destinations of the buffers that a stager fills.

use super::Publisher;
use crate::{
    capture::Contents,
    error::Result,
    ground::Instant,
    place::{IoThreads, Load, Shard, StagingTime},
    space::{Aligned, format::BLOCK_BYTES},
};
use std::sync::Arc;

/// Takes the log of a shard while it is staged. A failure is noted in the shard, or in one of its targets: an error
/// here means that no target is left to save the shard.
pub(crate) trait Outlet {
    /// The ranks are in one call: other ranks listen from here on, until `end` or `give_up`.
    fn open(&mut self, _shard: &Arc<Shard>) {}
    /// The threads that take buffers that a snapshot fills only after t2. `None`: all bytes must be there before.
    fn later(&self) -> Option<&IoThreads> {
        None
    }
    /// The unit, in whole blocks, of the bytes that bypass the buffer. `None`: for now all bytes have to be gathered.
    fn straight_bytes(&self) -> Option<u64>;
    /// Takes whole blocks of the log, starting at `at`; when it returns, the caller may reuse the memory.
    fn carry(&mut self, shard: &Arc<Shard>, at: u64, blocks: &[u8]) -> Result<()>;
    /// Takes a full buffer; returns it if it can be filled again.
    fn take(&mut self, shard: &Arc<Shard>, full: Full) -> Result<Option<Aligned>>;
    /// t2 of a shard: all its bytes have been taken, unless it has failed.
    fn end(&mut self, shard: &Arc<Shard>, contents: Contents, staged: StagingTime);
    /// The shard has failed, and will not be whole.
    fn give_up(&mut self, shard: &Arc<Shard>);
}

/// A buffer on its way, with whole blocks of the log.
pub(crate) enum Full {
    /// The first `bytes` bytes of a rank's own buffer, which belong at `at`.
    Own { buffer: Aligned, bytes: u64, at: u64 },
    /// A chunk of the node's pool.
    Load(Arc<Load>),
}

impl Full {
    /// Offset of the blocks in the log, and the blocks.
    pub(crate) fn blocks(&self) -> (u64, &[u8]) {
        match self {
            Full::Own { buffer, bytes, at } => (*at, &buffer[..*bytes as usize]),
            Full::Load(load) => (load.offset(), load.filled()),
        }
    }
}

/// The way to the targets that this rank writes: I/O threads write chunks, the program's thread everything else.
pub(crate) struct Here<'a> {
    pub(crate) threads: &'a IoThreads,
    pub(crate) publisher: Publisher,
}

impl Outlet for Here<'_> {
    fn later(&self) -> Option<&IoThreads> {
        Some(self.threads).filter(|_| self.publisher == Publisher::Threads)
    }

    fn straight_bytes(&self) -> Option<u64> {
        Some(BLOCK_BYTES)
    }

    fn carry(&mut self, shard: &Arc<Shard>, at: u64, blocks: &[u8]) -> Result<()> {
        shard.carry(at, blocks)
    }

    fn take(&mut self, shard: &Arc<Shard>, full: Full) -> Result<Option<Aligned>> {
        match full {
            Full::Own { buffer, bytes, at } => shard.carry(at, &buffer[..bytes as usize]).map(|()| Some(buffer)),
            Full::Load(load) => {
                self.threads.carry(load);
                Ok(None)
            }
        }
    }

    /// Seals the shard and starts its publication.
    fn end(&mut self, shard: &Arc<Shard>, contents: Contents, staged: StagingTime) {
        let staged_at = Instant::now();
        if !shard.has_failed() {
            shard.seal(&contents, staged);
        }
        shard.note_staged(staged, contents);
        if self.publisher == Publisher::Caller {
            shard.commit_now(staged_at);
            return;
        }
        shard.note_resumed(staged_at.elapsed());
        self.threads.all_staged(shard);
    }

    fn give_up(&mut self, shard: &Arc<Shard>) {
        self.threads.all_staged(shard);
    }
}
