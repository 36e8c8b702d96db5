//! Outlets: where the buffers that a stager fills go.

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
/// here says that no target is left to save the shard.
pub(crate) trait Outlet {
    /// The ranks are in one call: other ranks listen from here on, until `end` or `give_up`.
    fn open(&mut self, _shard: &Arc<Shard>) {}
    /// Who takes buffers that a snapshot fills only after t2. `None`: all bytes have to be there before.
    fn later(&self) -> Option<&IoThreads> {
        None
    }
    /// The unit, in whole blocks, of the bytes that are not gathered. `None`: for now all bytes have to be gathered.
    fn straight_bytes(&self) -> Option<u64>;
    /// Takes whole blocks of the log, from `at` on; the memory is the caller's again when it returns.
    fn carry(&mut self, shard: &Arc<Shard>, at: u64, blocks: &[u8]) -> Result<()>;
    /// Takes a full buffer; gives it back if it can be filled anew.
    fn take(&mut self, shard: &Arc<Shard>, full: Full) -> Result<Option<Aligned>>;
    /// t2 of a shard whose bytes have all been taken, unless it has failed.
    fn end(&mut self, shard: &Arc<Shard>, contents: Contents, staged: StagingTime);
    /// The shard has failed, and is not going to be whole.
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
    /// Where the blocks belong in the log, and the blocks.
    pub(crate) fn blocks(&self) -> (u64, &[u8]) {
        match self {
            Full::Own { buffer, bytes, at } => (*at, &buffer[..*bytes as usize]),
            Full::Load(load) => (load.offset(), load.filled()),
        }
    }
}

/// The way to the targets that this rank writes: chunks by the I/O threads, all else by the program's thread.
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

    /// Seals the shard, and has it published.
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
