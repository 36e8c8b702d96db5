//! When I/O threads leave the processor and the memory bandwidth to programs that are copying.

use crate::{
    ground::{Instant, sleep},
    pool::{Chunk, Pool},
};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// A program that writes its next piece within this time is still copying.
const BETWEEN_PIECES_NS: u64 = 2_000_000;
/// How often a chunk that waits for the next flush checks whether chunks are wanted.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long after its own t2 a rank lets others copy before it hashes. Another rank may be dead, or far behind.
pub(super) const YIELD_TO_COPIES: Duration = Duration::from_millis(250);

/// Progress of the program's copying of one shard.
#[derive(Debug)]
pub(super) struct Pace {
    /// t1 of the shard.
    started: Instant,
    /// Whether the program's thread is copying.
    copying: AtomicBool,
    /// When `copying` changed, since t1.
    copied_at: AtomicU64,
    /// Time when all of the shard was staged, except the parts that a snapshot copies.
    staged_at: OnceLock<Instant>,
}

impl Pace {
    pub(super) fn new(started: Instant) -> Pace {
        Pace { started, copying: AtomicBool::new(false), copied_at: AtomicU64::new(0), staged_at: OnceLock::new() }
    }

    pub(super) fn set_copying(&self, copying: bool) {
        self.copied_at.store(self.started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.copying.store(copying, Ordering::Release);
    }

    /// The program has nothing more to copy: all is staged, or a snapshot copies the rest.
    pub(super) fn note_gone_on(&self) {
        let _ = self.staged_at.set(Instant::now());
        self.set_copying(false);
    }

    /// Whether the program is copying, or has just copied and will write more.
    fn is_copying(&self) -> bool {
        let now = || self.started.elapsed().as_nanos() as u64;
        let between_pieces =
            || !self.is_staged() && now().saturating_sub(self.copied_at.load(Ordering::Relaxed)) < BETWEEN_PIECES_NS;
        self.copying.load(Ordering::Acquire) || between_pieces()
    }

    fn is_staged(&self) -> bool {
        self.staged_at.get().is_some()
    }

    /// Waits while ranks of this node, listed in `pool`, copy: our work would only take processors or memory bandwidth
    /// from them. Stops waiting once `is_late` is true, because another thread waits for the postponed work, or when
    /// the shard `has_failed`.
    pub(super) fn let_others_copy(&self, pool: &Pool, has_failed: impl Fn() -> bool, is_late: impl Fn() -> bool) {
        let is_fresh = || self.staged_at.get().is_some_and(|staged| staged.elapsed() < YIELD_TO_COPIES);
        let others = || is_fresh() && pool.others_copy();
        let own = || self.is_copying() && !has_failed();
        pool.hold_while(|| (own() || others()) && !is_late());
    }

    /// Postpones a chunk that was filled at `filled_at`, since t1, until the next flush; flushes come every `period`.
    /// Stops waiting once a thread waits for a chunk, all is staged, or the shard `has_failed`.
    pub(super) fn hold_back(
        &self,
        chunk: &Chunk,
        filled_at: Duration,
        period: Duration,
        has_failed: impl Fn() -> bool,
    ) {
        // All chunks filled since the last flush go with the next one.
        let (filled, period) = (filled_at.as_nanos(), period.as_nanos().max(1));
        let due = Duration::from_nanos(u64::try_from((filled / period + 1) * period).unwrap_or(u64::MAX));
        while !self.is_staged() && !has_failed() && !chunk.is_wanted() {
            match due.checked_sub(self.started.elapsed()) {
                Some(left) => sleep(left.min(LOOK_EVERY)),
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that a snapshot copies were postponed as if between two pieces, and written and hashed up to 20 ms
    /// late.
    #[test]
    fn a_program_that_has_gone_on_before_the_copy_copies_no_more() {
        let pace = Pace::new(Instant::now());
        pace.set_copying(true);
        assert!(pace.is_copying());
        pace.note_gone_on();
        assert!(!pace.is_copying());
    }
}
