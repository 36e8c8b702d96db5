//! The way of full buffers to the targets of a shard: I/O threads write chunks, the program's thread writes all else.

use super::Publisher;
use crate::{
    capture::Contents,
    error::Result,
    ground::Instant,
    place::{IoThreads, LogSegment, Shard, StagingTime},
    space::Aligned,
};
use std::sync::Arc;

/// A full buffer, with whole blocks of the log.
pub(crate) enum FullBuffer {
    /// The first `bytes` bytes of a rank's own buffer, which belong at `at`.
    Own { buffer: Aligned, bytes: u64, at: u64 },
    /// A chunk of the node's pool.
    LogSegment(Arc<LogSegment>),
}

/// Takes the log of a shard while it is staged. A failure is noted in the shard, or in one of its targets: an error
/// here says that no target is left to save the shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlet<'a> {
    pub(crate) threads: &'a IoThreads,
    pub(crate) publisher: Publisher,
}

impl<'a> Outlet<'a> {
    /// The threads that take buffers which a snapshot fills only after t2. `None`: all bytes have to be there before.
    pub(super) fn later(&self) -> Option<&'a IoThreads> {
        Some(self.threads).filter(|_| self.publisher == Publisher::Threads)
    }

    /// Takes a full buffer; gives it back if it can be filled anew.
    pub(super) fn take(&self, shard: &Shard, full: FullBuffer) -> Result<Option<Aligned>> {
        match full {
            FullBuffer::Own { buffer, bytes, at } => shard.carry(at, &buffer[..bytes as usize]).map(|()| Some(buffer)),
            FullBuffer::LogSegment(load) => {
                self.threads.carry(load);
                Ok(None)
            }
        }
    }

    /// t2 of a shard whose bytes have all been taken: seals the shard, unless it has failed, and has it published.
    pub(super) fn end(&self, shard: &Arc<Shard>, contents: Contents, staged: StagingTime) {
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

    /// The shard has failed, and is not going to be whole.
    pub(super) fn give_up(&self, shard: &Arc<Shard>) {
        self.threads.all_staged(shard);
    }
}
