//! How objects on different ranks reach each other: an adapter implements this.

use mainstay_engine::Result;
use std::time::{Duration, Instant};

/// Incoming bytes from a rank, and the room for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arriving {
    pub from: usize,
    pub bytes: Vec<u8>,
}

/// The ranks that have objects: those that the program works on, by the same numbers as in the session. After a
/// recovery the ranks are others, and a message that was sent before does not arrive. An error means that the ranks can
/// no longer reach each other: the program recovers, or ends.
pub trait Wire {
    fn rank(&self) -> usize;
    fn ranks(&self) -> usize;
    /// Sends each rank the same number of words, those for rank r beginning at `to[r * words]`; `from` gets those of
    /// each rank in the same order. Collective.
    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()>;
    /// Sends everything in `leaving`, each part to its rank, and fills the buffers in `arriving`; each rank knows their
    /// sizes. Meanwhile calls `meanwhile` again and again until it returns `false`; the transfers make progress in
    /// between.
    fn exchange(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut Vec<Arriving>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()>;
}

/// How long a rank waits for incoming bytes before it turns to other work: the time that a fast wire takes. Many
/// senders make progress only while their receiver looks, and a busy receiver looks rarely.
pub fn worth_waiting_for(arriving: &[Arriving]) -> Duration {
    const LATENCY: Duration = Duration::from_micros(20);
    const BYTES_PER_US: u64 = 1000;
    let bytes = arriving.iter().map(|one| one.bytes.len() as u64).sum::<u64>();
    if bytes == 0 { Duration::ZERO } else { LATENCY + Duration::from_micros(bytes / BYTES_PER_US) }
}

/// Calls `meanwhile` for as long as a sender can well wait; returns `false` if no work is left. Looking for incoming
/// bytes more often would cost more than it helps: if ranks share cores, MPI yields the core each time.
pub fn work_for_a_while(meanwhile: &mut dyn FnMut() -> bool) -> bool {
    const LOOK_EVERY: Duration = Duration::from_micros(500);
    let begun = Instant::now();
    while meanwhile() {
        if begun.elapsed() >= LOOK_EVERY {
            return true;
        }
    }
    false
}
