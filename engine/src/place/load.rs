//! A chunk of the pool under way to the targets of its shard.

use super::Shard;
use crate::{error::Result, pool::Chunk};
use std::{sync::Arc, time::Duration};

const NEAREST: usize = 0;

/// A filled chunk. It goes back to the pool once nobody holds it any more: when it is hashed, and the last target has
/// it.
#[derive(Debug)]
pub(crate) struct Load {
    chunk: Chunk,
    shard: Arc<Shard>,
    /// Where in the log its stretch begins.
    offset: u64,
    bytes: u64,
    segment: u32,
    /// When the chunk was filled, since t1.
    filled_at: Duration,
}

impl Load {
    /// A load of `chunk`, which was filled with `bytes` bytes (whole blocks) of the log, from `offset` on.
    pub(crate) fn new(chunk: Chunk, shard: Arc<Shard>, offset: u64, bytes: u64) -> Result<Load> {
        let segment = shard.place(&chunk, offset, bytes);
        chunk.fill(shard.tag(), segment, bytes)?;
        let filled_at = shard.started().elapsed();
        Ok(Load { chunk, shard, offset, bytes, segment, filled_at })
    }

    pub(super) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Where in the log the chunk's bytes begin.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.chunk.bytes()[..self.bytes as usize]
    }

    /// Writes the chunk to target number `target`. Chunks of a node take turns at the nearest target; farther targets
    /// get them as they come. `flush_every`: chunks are written only that often, unless somebody waits for one (slides
    /// 003: the I/O process flushes periodically).
    pub(super) fn write(&self, target: usize, flush_every: Option<Duration>) {
        let written = self.write_to(target, flush_every);
        // If the chunk was taken away meanwhile, it may have held something else.
        let still_ours = if target == NEAREST { self.chunk.written() } else { self.chunk.check() };
        match written.and(still_ours) {
            Ok(()) => self.shard.segment_written(self.segment, target),
            Err(error) => self.shard.fail_target(target, error),
        }
    }

    fn write_to(&self, target: usize, flush_every: Option<Duration>) -> Result<()> {
        let shard = &self.shard;
        let has_failed = || shard.failure_of(target).is_some();
        let goes_on = || shard.failure_of(target).map_or(Ok(()), |error| Err(error.clone()));
        if let Some(period) = flush_every {
            shard.pace.hold_back(&self.chunk, self.filled_at, period, has_failed);
        }
        goes_on()?;
        let to = &shard.targets()[target];
        if to.takes_processor() {
            // Work that others wait for, and that takes next to no processor, goes on meanwhile.
            to.prepare()?;
            shard.pace.let_others_copy(&self.chunk, has_failed, || self.chunk.holds_up());
        }
        let turn = if target == NEAREST { self.chunk.await_turn() } else { self.chunk.check() };
        // The shard may have been given up meanwhile: whoever waits for its end gets its blocks.
        goes_on()?;
        turn.and_then(|()| to.write(self.offset, self.filled()))
    }

    /// Hashes the chunk.
    pub(super) fn hash(&self) {
        let has_failed = || self.shard.has_failed();
        self.shard.pace.let_others_copy(&self.chunk, has_failed, || false);
        if !has_failed() {
            self.shard.hash(self.offset, self.filled());
            // If the chunk was taken away meanwhile, it may have held something else.
            match self.chunk.check() {
                Ok(()) => self.shard.segment_hashed(self.segment),
                Err(error) => self.shard.fail(error),
            }
        }
    }
}
