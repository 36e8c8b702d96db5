//! In which order full chunks are written: by node, as they were filled, a few at a time.

use super::{
    Chunk, Pool,
    signal::Waited,
    word::{Found, State},
};
use crate::error::Result;
use std::sync::atomic::Ordering;

/// Waits that time out before a chunk goes without its turn. The order is for the device's good; whoever
/// holds it up, stopped or writing to a device that hangs, must not stop the others.
const PATIENCE: u32 = 50;

impl Chunk {
    /// Waits until fewer than `writes_max` chunks that were filled before are still to be written, and
    /// says that this one is.
    pub(crate) fn await_turn(&self) -> Result<()> {
        let (mut patience, mut dead) = (PATIENCE, Vec::new());
        while patience > 0 && !self.is_next(&dead) {
            match self.pool().shared.control().turn.wait(|| self.is_next(&dead).then_some(())) {
                Waited::Ready(()) => break,
                Waited::Woken => patience = PATIENCE,
                Waited::TimedOut => {
                    patience -= 1;
                    // Theirs are written by whoever reclaims them.
                    dead = self.pool().dead();
                }
            }
        }
        self.change(State::Writing, self.tag())
    }

    pub(super) fn is_next(&self, dead: &[u32]) -> bool {
        let pool: &Pool = self.pool();
        let (constants, own) = (&pool.shared.constants, self.ticket.load(Ordering::Relaxed));
        let before = pool.shared.chunk_entries().iter().filter(|entry| {
            let Found::Held(word) = Found::of(entry.word.load(Ordering::Acquire), constants.members) else {
                return false;
            };
            word.is_in_line() && entry.ticket.load(Ordering::Relaxed) < own && !dead.contains(&u32::from(word.member))
        });
        before.take(constants.writes_max as usize).count() < constants.writes_max as usize
    }
}
