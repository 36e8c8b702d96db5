//! Messages that are under way while the program goes on.

use std::{
    any::Any,
    sync::atomic::{AtomicU64, Ordering},
};

/// Memory that is sent: it stays as it is, and is dropped when the message is through.
pub type Outgoing = Box<dyn AsRef<[u8]> + Send>;

/// Memory that a message fills: nobody else touches it until the message is through.
pub type Incoming = Box<dyn Fill>;

/// Memory that can be filled, and found again by its type (`Box<dyn Any>`) once it is filled.
pub trait Fill: AsMut<[u8]> + Any + Send {}

impl<T: AsMut<[u8]> + Any + Send> Fill for T {}

/// A message that this rank has started. No two have the same number, whichever group they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message(u64);

impl Message {
    /// A message with the next number.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Message {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Message(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// How far a message has come.
pub enum Tested {
    UnderWay,
    Sent,
    /// The memory, filled with what was sent.
    Received(Incoming),
}
