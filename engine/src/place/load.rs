//! A part of a shard's log on its way to the targets: in a chunk of the pool, or already in place in the only target.

use super::Shard;
use crate::{
    device::Mapped,
    error::Result,
    pool::{Chunk, Pool},
};
use std::{sync::Arc, time::Duration};

pub(super) const NEAREST: usize = 0;

/// A part of the log with a fixed place, still to be filled by a snapshot.
#[derive(Debug)]
pub(crate) struct PendingSegment {
    location: LoadLocation,
    offset: u64,
    bytes: u64,
    /// Number of bytes that the snapshot has copied when this part is filled.
    pub(super) filled_after: u64,
}

impl PendingSegment {
    /// `chunk` will hold `bytes` bytes (whole blocks) of the log, starting at `offset`.
    pub(crate) fn in_chunk(chunk: Chunk, offset: u64, bytes: u64, filled_after: u64) -> PendingSegment {
        PendingSegment { location: LoadLocation::Chunk(chunk), offset, bytes, filled_after }
    }

    /// The start of `mapped`, in place, will hold them.
    pub(crate) fn in_place(mapped: Mapped, pool: Pool, offset: u64, bytes: u64, filled_after: u64) -> PendingSegment {
        PendingSegment { location: LoadLocation::InPlace(mapped, pool), offset, bytes, filled_after }
    }

    /// Only the end of the snapshot shows whether this part is filled.
    pub(crate) fn await_end(&mut self) {
        self.filled_after = u64::MAX;
    }

    /// The part is filled. It gets in line to be written only now: otherwise others would wait for it.
    pub(crate) fn filled(self, shard: Arc<Shard>) -> Result<LogSegment> {
        match self.location {
            LoadLocation::Chunk(chunk) => LogSegment::new(chunk, shard, self.offset, self.bytes),
            LoadLocation::InPlace(mapped, pool) => {
                Ok(LogSegment::in_place(mapped, pool, shard, self.offset, self.bytes))
            }
        }
    }
}

/// A filled part of the log. A chunk is returned to the pool when it is hashed and the last target has it.
#[derive(Debug)]
pub(crate) struct LogSegment {
    location: LoadLocation,
    shard: Arc<Shard>,
    /// Offset of the load in the log.
    offset: u64,
    bytes: u64,
    segment: u32,
    /// When the part was filled, since t1.
    filled_at: Duration,
}

#[derive(Debug)]
enum LoadLocation {
    Chunk(Chunk),
    /// Already in place. The pool shows whether other ranks copy.
    InPlace(Mapped, Pool),
}

impl LogSegment {
    /// A load of `chunk`, filled with `bytes` bytes (whole blocks) of the log, starting at `offset`.
    pub(crate) fn new(chunk: Chunk, shard: Arc<Shard>, offset: u64, bytes: u64) -> Result<LogSegment> {
        let segment = shard.place(&chunk, offset, bytes);
        chunk.fill(shard.tag(), segment, bytes)?;
        let filled_at = shard.started().elapsed();
        Ok(LogSegment { location: LoadLocation::Chunk(chunk), shard, offset, bytes, segment, filled_at })
    }

    /// A load that is already in place: `bytes` bytes (whole blocks) of the log, starting at `offset`, at the start of
    /// `mapped`.
    pub(crate) fn in_place(mapped: Mapped, pool: Pool, shard: Arc<Shard>, offset: u64, bytes: u64) -> LogSegment {
        let segment = shard.place_in_target(offset, bytes);
        let filled_at = shard.started().elapsed();
        LogSegment { location: LoadLocation::InPlace(mapped, pool), shard, offset, bytes, segment, filled_at }
    }

    /// The chunk to write to the targets; `None` if the load is already in place.
    fn chunk(&self) -> Option<&Chunk> {
        match &self.location {
            LoadLocation::Chunk(chunk) => Some(chunk),
            LoadLocation::InPlace(..) => None,
        }
    }

    /// Whether the load has to be written to the targets.
    pub(super) fn is_to_be_written(&self) -> bool {
        self.chunk().is_some()
    }

    pub(super) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    pub(crate) fn filled(&self) -> &[u8] {
        let all = match &self.location {
            LoadLocation::Chunk(chunk) => chunk.bytes(),
            LoadLocation::InPlace(mapped, _) => mapped.as_ref(),
        };
        &all[..self.bytes as usize]
    }

    /// Writes the chunk to target number `target`. Chunks of a node take turns at the nearest target; farther targets
    /// get them as they come. `flush_every`: the interval of writes, unless a thread waits for a chunk (slides 003: the
    /// I/O process flushes periodically).
    pub(super) fn write(&self, target: usize, flush_every: Option<Duration>) {
        let Some(chunk) = self.chunk() else { return };
        let written = self.write_to(chunk, target, flush_every);
        // If the chunk was taken away meanwhile, it may have held other data.
        let still_ours = if target == NEAREST { chunk.written() } else { chunk.check() };
        match written.and(still_ours) {
            Ok(()) => self.shard.segment_written(self.segment, target),
            Err(error) => self.shard.fail_target(target, error),
        }
    }

    fn write_to(&self, chunk: &Chunk, target: usize, flush_every: Option<Duration>) -> Result<()> {
        let shard = &self.shard;
        let has_failed = || shard.failure_of(target).is_some();
        let goes_on = || shard.failure_of(target).map_or(Ok(()), |error| Err(error.clone()));
        if let Some(period) = flush_every {
            shard.pace.hold_back(chunk, self.filled_at, period, has_failed);
        }
        goes_on()?;
        let to = &shard.targets[target];
        if to.takes_processor() {
            // Work that others wait for, and that uses hardly any processor, goes on meanwhile.
            to.prepare()?;
        }
        if to.takes_processor() || shard.is_small() {
            shard.pace.let_others_copy(chunk.pool(), has_failed, || chunk.is_wanted() || chunk.holds_up());
        }
        let turn = if target == NEAREST { chunk.await_turn() } else { chunk.check() };
        // The shard may have been abandoned meanwhile; the next owner of its blocks waits for this.
        goes_on()?;
        turn.and_then(|()| to.write(self.offset, self.filled()))
    }

    /// Hashes the load.
    pub(super) fn hash(&self) {
        let has_failed = || self.shard.has_failed();
        let pool = match &self.location {
            LoadLocation::Chunk(chunk) => chunk.pool(),
            LoadLocation::InPlace(_, pool) => pool,
        };
        let is_wanted = || self.chunk().is_some_and(Chunk::is_wanted);
        self.shard.pace.let_others_copy(pool, has_failed, is_wanted);
        if !has_failed() {
            self.shard.hash(self.offset, self.filled());
            // If a chunk was taken away meanwhile, it may have held other data.
            match self.chunk().map_or(Ok(()), Chunk::check) {
                Ok(()) => self.shard.segment_hashed(self.segment),
                Err(error) => self.shard.fail(error),
            }
        }
    }
}
