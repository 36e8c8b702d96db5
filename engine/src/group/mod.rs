//! The engine's view of the other ranks. The engine does not know MPI. An adapter provides rank, size, three
//! collectives, and messages between two ranks, including messages in the background. If it can, the adapter also
//! provides the failed ranks, and a group without them. These are called only from the thread that calls the session,
//! never from I/O threads.
//!
//! The folder also finds the neighbours on a node, the rack or switch with which a node fails (`failure_domain`), and
//! the nodes that keep copies for each other (`buddies`).

mod agree;
mod buddies;
mod divided;
mod equal;
mod failure_domain;
mod message;
mod neighbours;
mod process;
mod solo;
mod start;
mod successor;
mod threads;
mod watch;

pub use agree::agree;
pub(crate) use agree::{Unlike, broadcast, decode, encode, gather, gather_unequal, gather_unlike};
pub use buddies::{Apart, Buddies, Seat};
pub use divided::Divided;
pub use equal::{broadcast_sized, gather_padded};
pub use failure_domain::{failure_domain, host_name};
pub use message::{Fill, Incoming, Message, Outgoing, Tested};
pub(crate) use neighbours::{Neighbours, Place};
pub use process::Process;
pub use solo::Solo;
pub use start::Start;
pub use successor::successor;
pub use threads::ThreadGroup;
pub use watch::Watch;

use crate::error::{Error, Result};

/// The maximum number of ranks of a job.
pub const RANKS_MAX: usize = 1 << 24;

/// The ranks of one job. The methods with a `Result` are collective: all ranks call the same methods in the same order.
/// Exceptions are messages, which two ranks send and receive, and `failed`, which any rank calls alone. An error means
/// that the group is no longer reliable, or, for methods that say so, that this group does not have the method.
pub trait Group: Send {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// The number of ranks that share this one's processors, including itself.
    fn ranks_here(&self) -> usize;
    /// Puts the element-wise maximum over all ranks into `values` on every rank. All ranks pass the same number of
    /// values.
    fn all_max(&self, values: &mut [u64]) -> Result<()>;
    /// Returns the bytes of each rank, in the order of ranks; lengths may differ.
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Puts the `bytes` of rank `root` into `bytes` on every rank.
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()>;
    /// Whether `wait_eagerly` changes anything on this rank.
    fn can_wait_eagerly(&self) -> bool {
        false
    }
    /// Selects the way in which ranks wait for each other in `all_max`: the fastest, or, as at first, leaving the
    /// processors to others. All ranks call this with the same value between the same two collective calls.
    fn wait_eagerly(&self, _eagerly: bool) {}
    /// Starts sending `bytes` to another rank, which starts receiving the same number. The group owns the memory until
    /// the message is complete. Between two ranks, messages arrive in the order of their starts.
    /// `InvalidArgument`: this group cannot do it.
    fn start_send(&self, _to: usize, _bytes: Outgoing) -> Result<Message> {
        Err(cannot("send while their programs go on"))
    }
    /// Starts filling `into` with bytes that `from` has started to send. `InvalidArgument`: this group cannot do it.
    fn start_receive(&self, _from: usize, _into: Incoming) -> Result<Message> {
        Err(cannot("receive while their programs go on"))
    }
    /// Whether a message of this rank is complete; never waits. After an error the message is over, and the memory that
    /// it should have filled is lost.
    fn test(&self, message: Message) -> Result<Tested> {
        Err(unknown(message))
    }
    /// The failed ranks known to this one, in ascending order; others may know of more. `InvalidArgument`: this group
    /// cannot find out.
    fn failed(&self) -> Result<Vec<usize>> {
        Err(cannot("report failed ranks"))
    }
    /// Makes the group that goes on: the ranks that have not failed, in their old order, with replacements in the
    /// places of failed ranks, if the adapter has any. If the state is `divided` by ranks (the highest value of all
    /// ranks counts), an adapter that would otherwise give up places fills them, if it can. On every rank, all current
    /// and later calls in the old group fail; a rank that gets such a failure calls `shrink` too. Collective among the
    /// remaining ranks. `InvalidArgument`: this group cannot do it.
    fn shrink(&self, _divided: Divided) -> Result<Box<dyn Group>> {
        Err(cannot("go on without failed ranks"))
    }
}

/// The error of an optional method that an adapter does not have.
fn cannot(what: &str) -> Error {
    Error::argument("group", format!("its ranks cannot {what}; if a rank has failed, start the job again"))
}

fn unknown(message: Message) -> Error {
    Error::Internal { what: format!("{message:?} is not in progress in this group") }
}
