//! Messages between ranks. A message is matched by context, source and tag, in the order in which it was sent.
//!
//! A short message goes at once. A long one waits in its sender's memory until the receiver is ready, and is then copied
//! once. Between two ranks messages always take one way, so they stay in order. After a recovery the hosts have a new
//! communicator, so no message of the time before arrives (paper 002, section 4.2).
//!
//! Invariants: a message stays with its sender or its receiver, and both are saved. Nothing is in flight when ranks are
//! saved.

mod hosts;
mod mailbox;
mod post;
mod wire;

pub(crate) use mailbox::{Mailbox, SavedMailbox};
pub(crate) use post::Post;
#[cfg(feature = "fuzzing")]
pub(crate) use post::each_kind;
pub use wire::{Alone, Wire};
