//! A chunk of the pool under way to the space.

use super::Saving;
use crate::{error::Result, pool::Chunk};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::Duration,
};

/// How often what is held back for the next flush looks whether somebody waits for a chunk.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long after its own t2 a rank lets others copy before it hashes. One of them may be dead, or far behind.
const YIELD_TO_COPIES: Duration = Duration::from_millis(250);

/// Goes back to the pool once nobody holds it any more.
#[derive(Debug)]
pub(crate) struct Load {
    chunk: Chunk,
    saving: Arc<Saving>,
    /// Which stretch of the log it is.
    offset: u64,
    bytes: u64,
    segment: u32,
    /// Since t1.
    filled_at: Duration,
    /// What of it is done: `WRITTEN`, `HASHED`.
    ended: AtomicU8,
}

const WRITTEN: u8 = 1;
const HASHED: u8 = 2;

impl Load {
    /// `chunk`, filled with `bytes` bytes (whole blocks) of the log from `offset` on.
    pub(crate) fn new(chunk: Chunk, saving: Arc<Saving>, offset: u64, bytes: u64) -> Result<Load> {
        let segment = saving.place(&chunk, offset, bytes);
        chunk.fill(saving.tag(), segment, bytes)?;
        let filled_at = saving.started().elapsed();
        Ok(Load { chunk, saving, offset, bytes, segment, filled_at, ended: AtomicU8::new(0) })
    }

    pub(super) fn saving(&self) -> &Arc<Saving> {
        &self.saving
    }

    fn filled(&self) -> &[u8] {
        &self.chunk.bytes()[..self.bytes as usize]
    }

    /// Writes it, when its turn among those of the node has come. `flush_every`: only then, unless
    /// somebody waits for a chunk (slides 003: the I/O process flushes periodically).
    pub(super) fn write(&self, flush_every: Option<Duration>) {
        if let Some(period) = flush_every {
            self.hold_back(period);
        }
        if self.saving.has_failed() {
            return;
        }
        if self.saving.portion.takes_processor() {
            // What is waited for, and takes next to no processor, goes on meanwhile.
            if let Err(error) = self.saving.prepare() {
                return self.saving.fail(error);
            }
            self.let_others_copy(|| self.chunk.holds_up());
        }
        let turn = self.chunk.await_turn();
        // It may have been given up meanwhile: whoever waits for its end gets its blocks.
        if self.saving.has_failed() {
            return;
        }
        let result = turn.and_then(|()| self.saving.write(self.offset, self.filled()));
        match result.and(self.chunk.written()) {
            Ok(()) => self.end(WRITTEN),
            Err(error) => self.saving.fail(error),
        }
    }

    /// Hashes it.
    pub(super) fn hash(&self) {
        self.let_others_copy(|| false);
        if !self.saving.has_failed() {
            self.saving.hash(self.offset, self.filled());
            // Taken away meanwhile, it may have held something else.
            match self.chunk.check() {
                Ok(()) => self.end(HASHED),
                Err(error) => self.saving.fail(error),
            }
        }
    }

    /// Waits while ranks of this node copy, unless somebody waits for a chunk: what takes the processor, or the
    /// memory's speed, would only take it from them. Nor does it wait once `is_late`.
    fn let_others_copy(&self, is_late: impl Fn() -> bool) {
        let others = || self.saving.is_staged_for_less_than(YIELD_TO_COPIES) && self.chunk.pool().others_copy();
        let hold = || (self.saving.is_copying() || others()) && !self.chunk.is_wanted() && !is_late();
        self.chunk.pool().hold_while(hold);
    }

    fn end(&self, part: u8) {
        if self.ended.fetch_or(part, Ordering::AcqRel) | part == WRITTEN | HASHED {
            self.saving.segment_done(self.segment);
        }
    }

    fn hold_back(&self, period: Duration) {
        // All that was filled since the last flush goes with the next one.
        let (filled, period) = (self.filled_at.as_nanos(), period.as_nanos().max(1));
        let due = Duration::from_nanos(u64::try_from((filled / period + 1) * period).unwrap_or(u64::MAX));
        while !self.saving.is_staged() && !self.saving.has_failed() && !self.chunk.is_wanted() {
            match due.checked_sub(self.saving.started().elapsed()) {
                Some(left) => thread::sleep(left.min(LOOK_EVERY)),
                None => break,
            }
        }
    }
}
