//! How the engine sees its peers. The engine knows no MPI: an adapter gives it rank, size, three collectives, messages
//! between two ranks, also such as go on while the program does, and, if the adapter can, who has failed and a group
//! without those. They are called only from the thread that calls the session, never from I/O threads.

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
mod tell;
mod threads;
mod watch;

pub use agree::agree;
pub(crate) use agree::{decode, encode, gather};
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
pub(crate) use tell::{hear, tell};
pub use threads::ThreadGroup;
pub use watch::Watch;

use crate::error::{Error, Result};

/// The most ranks that a job can have.
pub const RANKS_MAX: usize = 1 << 24;

/// The ranks of one job. The methods with a `Result` are collective: all ranks call the same methods in the same order.
/// Exceptions are messages, which two ranks send and receive, and `failed`, which any rank calls alone. An error means
/// that the group can no longer be relied on, or, for methods that say so, that this group does not have the method.
pub trait Group: Send {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// How many ranks share this one's processors, itself included.
    fn ranks_here(&self) -> usize;
    /// Puts the element-wise maximum over all ranks into `values` on every rank. All ranks give as many values.
    fn all_max(&self, values: &mut [u64]) -> Result<()>;
    /// Returns what each rank gave, in the order of ranks; lengths may differ.
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Puts the `bytes` of rank `root` into `bytes` on every rank.
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()>;
    /// Whether `wait_eagerly` changes anything on this rank.
    fn can_wait_eagerly(&self) -> bool {
        false
    }
    /// From here on ranks wait for each other in `all_max` in the way that is the fastest, or leave the processors to others
    /// meanwhile, as at first. All ranks are told the same between the same two collective calls.
    fn wait_eagerly(&self, _eagerly: bool) {}
    /// Whether the group can send messages between two ranks: `aggregators` needs them.
    fn can_send(&self) -> bool {
        true
    }
    /// Sends `bytes` to another rank. May wait until that rank receives them.
    fn send(&self, to: usize, bytes: &[u8]) -> Result<()>;
    /// Fills `into` with as many bytes of what `from` has sent, in the order in which it was sent.
    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()>;
    /// Starts sending `bytes` to another rank, which starts to receive as many. The memory is the group's until the
    /// message is through. Between two ranks such messages arrive in the order in which they were started; they do not
    /// mix with those of `send`. `InvalidArgument`: this group cannot.
    fn start_send(&self, _to: usize, _bytes: Outgoing) -> Result<Message> {
        Err(cannot("send while their programs go on"))
    }
    /// Starts filling `into` with what `from` has started to send. `InvalidArgument`: this group cannot.
    fn start_receive(&self, _from: usize, _into: Incoming) -> Result<Message> {
        Err(cannot("receive while their programs go on"))
    }
    /// Whether a message that this rank has started is through; never waits. After an error the message is over, and
    /// the memory that it was to fill is gone.
    fn test(&self, message: Message) -> Result<Tested> {
        Err(unknown(message))
    }
    /// The ranks of which this one knows that they have failed, in ascending order; others may know of more.
    /// `InvalidArgument`: this group cannot tell.
    fn failed(&self) -> Result<Vec<usize>> {
        Err(cannot("tell who has failed"))
    }
    /// Makes the group that goes on: the ranks that have not failed, in their old order, with others in the places of
    /// those that have, where the adapter has any. Of a state that is `divided` by ranks, as the highest of all ranks
    /// tells, an adapter that would give up places fills them, if it can. On every rank, all that is under way in the
    /// old group, and whatever is called in it later, fails; so a rank that is told of such a failure calls `shrink`,
    /// too. Collective among the ranks that are left. `InvalidArgument`: this group cannot.
    fn shrink(&self, _divided: Divided) -> Result<Box<dyn Group>> {
        Err(cannot("go on without those that have failed"))
    }
}

/// The error of a method that an adapter need not have.
fn cannot(what: &str) -> Error {
    Error::argument("group", format!("its ranks cannot {what}; where a rank has failed, start the job again"))
}

fn unknown(message: Message) -> Error {
    Error::Internal { what: format!("{message:?} is not under way in this group") }
}
