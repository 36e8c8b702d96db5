//! How the engine sees its peers. It knows no MPI: an adapter gives it rank, size and three
//! collectives. They are called only from the thread that calls the session, never from I/O threads.

mod agree;
mod equal;
mod solo;
mod threads;

pub use agree::agree;
pub(crate) use agree::gather;
pub use equal::{broadcast_sized, gather_padded};
pub use solo::Solo;
pub use threads::ThreadGroup;

use crate::error::Result;

/// The ranks of one job. The methods with a `Result` are collective: all ranks call the same
/// methods in the same order. An error means that the group can no longer be relied on.
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
}
