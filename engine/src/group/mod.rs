//! How the engine sees its peers. It knows no MPI: an adapter gives it rank, size, three collectives, and
//! messages between two. They are called only from the thread that calls the session, never from I/O threads.

mod agree;
mod equal;
mod neighbours;
mod solo;
mod tell;
mod threads;

pub use agree::agree;
pub(crate) use agree::gather;
pub use equal::{broadcast_sized, gather_padded};
pub(crate) use neighbours::{Neighbours, Place};
pub use solo::Solo;
pub(crate) use tell::{hear, tell};
pub use threads::ThreadGroup;

use crate::error::Result;

/// The most ranks that a job can have.
pub const RANKS_MAX: usize = 1 << 24;

/// The ranks of one job. The methods with a `Result` are collective, all ranks call the same methods in the same
/// order; but for `send` and `receive`, which two ranks call. An error means that the group can no longer be relied
/// on.
pub trait Group: Send {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// Ranks that share this one's processors, itself included.
    fn ranks_here(&self) -> usize;
    /// Element-wise maximum over all ranks, left in `values` on every rank; equal length everywhere.
    fn all_max(&self, values: &mut [u64]) -> Result<()>;
    /// What each rank gave, in the order of ranks; lengths may differ.
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// `bytes` of rank `root`, on every rank.
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()>;
    /// Whether there are messages between two: `aggregators` needs them.
    fn can_send(&self) -> bool {
        true
    }
    /// Sends `bytes` to another rank. May wait until it receives them.
    fn send(&self, to: usize, bytes: &[u8]) -> Result<()>;
    /// Fills `into` with what `from` has sent: as many bytes, in the order in which it was sent.
    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()>;
}
