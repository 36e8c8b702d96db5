//! In which order full chunks are written: by node, as they were filled, a few at a time.

use super::{
    Chunk, Pool,
    signal::Waited,
    word::{State, WordRead},
};
use crate::{error::Result, ground::Instant};
use std::{sync::atomic::Ordering, time::Duration};

/// The longest that a chunk waits for its turn. The order is for the device's good: a member that holds it up, stopped
/// or writing to a device that hangs, must not stop the others.
const TURN_AT_MOST: Duration = Duration::from_secs(1);

impl Chunk {
    /// Waits until fewer than `writes_max` chunks that were filled before this one are still to be written, and says
    /// that this one is being written.
    pub(crate) fn await_turn(&self) -> Result<()> {
        let (since, mut dead) = (Instant::now(), Vec::new());
        while since.elapsed() < TURN_AT_MOST && !self.is_next(&dead) {
            let look = || {
                // This chunk may wait for one that is held back until the programs have copied.
                self.pool().tell_copied();
                self.is_next(&dead).then_some(())
            };
            match self.pool().shared.control().turn.wait(look) {
                Waited::Ready(()) => break,
                Waited::Woken => {}
                // Chunks of the dead are written by whoever reclaims them.
                Waited::TimedOut => dead = self.pool().dead(),
            }
        }
        self.change(State::Writing, self.tag())
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
