//! The order in which full chunks are written: by node, in the order in which they were filled, a few at a time.

use super::{
    Chunk, Pool,
    signal::Waited,
    word::{ChunkState, WordRead},
};
use crate::{error::Result, ground::Instant};
use std::{sync::atomic::Ordering, time::Duration};

/// Longest wait of a chunk for its turn. The order only helps the device: a member that is stopped, or has a device
/// that hangs, must not block the others.
const TURN_AT_MOST: Duration = Duration::from_secs(1);

impl Chunk {
    /// Waits until fewer than `writes_max` earlier-filled chunks remain unwritten, then marks this chunk as being
    /// written.
    pub(crate) fn await_turn(&self) -> Result<()> {
        let (since, mut dead) = (Instant::now(), Vec::new());
        while since.elapsed() < TURN_AT_MOST && !self.is_next(&dead) {
            let look = || {
                // This chunk may be waiting for a chunk that is postponed until the programs have copied.
                self.pool().tell_copied();
                self.is_next(&dead).then_some(())
            };
            match self.pool().shared.control().turn.wait(look) {
                Waited::Ready(()) => break,
                Waited::Woken => {}
                // The process that reclaims a dead member's chunks writes them.
                Waited::TimedOut => dead = self.pool().dead(),
            }
        }
        self.change(ChunkState::Writing, self.tag())
    }

    pub(super) fn is_next(&self, dead: &[u32]) -> bool {
        let pool: &Pool = self.pool();
        let (constants, own) = (&pool.shared.constants, self.ticket.load(Ordering::Relaxed));
        let before = pool.shared.chunk_entries().iter().filter(|entry| {
            let WordRead::Taken(word) = WordRead::of(entry.word.load(Ordering::Acquire), constants.members) else {
                return false;
            };
            word.is_in_line() && entry.ticket.load(Ordering::Relaxed) < own && !dead.contains(&u32::from(word.member))
        });
        before.take(constants.writes_max as usize).count() < constants.writes_max as usize
    }
}
