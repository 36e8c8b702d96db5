//! Messages in progress while the program goes on.

use std::{
    any::Any,
    sync::atomic::{AtomicU64, Ordering},
};

/// Memory to send: it stays unchanged, and is dropped once the message is complete.
pub type Outgoing = Box<dyn AsRef<[u8]> + Send>;

/// Memory to fill: nothing else touches it until the message is complete.
pub type Incoming = Box<dyn Fill>;

/// Memory that can be filled, and converted back to its type (`Box<dyn Any>`) afterwards.
pub trait Fill: AsMut<[u8]> + Any + Send {}

impl<T: AsMut<[u8]> + Any + Send> Fill for T {}

/// A message that this rank has started. Numbers are unique, across all groups.
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

/// The progress of a message.
pub enum Tested {
    UnderWay,
    Sent,
    /// The memory, filled with the received bytes.
    Received(Incoming),
}
