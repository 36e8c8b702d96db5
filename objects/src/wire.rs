//! How objects on different ranks reach each other: what an adapter brings.

use mainstay_engine::Result;
use std::time::{Duration, Instant};

/// What is to come from a rank, and the room for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arriving {
    pub from: usize,
    pub bytes: Vec<u8>,
}

/// The ranks that have objects: those that the program works on, by the same numbers as in the session. After a recovery
/// they are others, and a message that was sent before does not arrive. An error means that the ranks can no longer reach
/// each other: the program recovers, or ends.
pub trait Wire {
    fn rank(&self) -> usize;
    fn ranks(&self) -> usize;
    /// Gives each rank the same number of words, those for rank r beginning at `to[r * words]`; in `from` lie those of each
    /// rank in the same way. Collective.
    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()>;
    /// Sends what is `leaving`, each to its rank, and fills what is `arriving`, of which each rank knows how much there is.
    /// While it is on its way `meanwhile` is called, again and again until it returns `false`; what is on its way moves on in
    /// between.
    fn exchange(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut Vec<Arriving>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()>;
}

/// How long a rank waits for what is arriving before it turns to other work: as long as a fast wire takes. Many senders go on
/// only while their receiver looks, and a receiver at work looks rarely.
pub fn worth_waiting_for(arriving: &[Arriving]) -> Duration {
    const LATENCY: Duration = Duration::from_micros(20);
    const BYTES_PER_US: u64 = 1000;
    let bytes = arriving.iter().map(|one| one.bytes.len() as u64).sum::<u64>();
    if bytes == 0 { Duration::ZERO } else { LATENCY + Duration::from_micros(bytes / BYTES_PER_US) }
}

/// Calls `meanwhile` for as long as a sender can well wait; `false`: there is nothing left to do. More looks at what is
/// arriving would cost more than they help: where ranks share cores, MPI hands the core on with each.
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
