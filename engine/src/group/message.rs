//! Messages that are under way while the program goes on.

use std::{
    any::Any,
    sync::atomic::{AtomicU64, Ordering},
};

/// What is sent: it stays as it is, and is dropped when the message is through.
pub type Outgoing = Box<dyn AsRef<[u8]> + Send>;

/// What a message fills: nobody else touches it until the message is through.
pub type Incoming = Box<dyn Room>;

/// Memory that can be filled, and found again by its type (`Box<dyn Any>`) once it has been.
pub trait Room: AsMut<[u8]> + Any + Send {}

impl<T: AsMut<[u8]> + Any + Send> Room for T {}

/// A message that this rank has started, of whichever group: no two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message(u64);

impl Message {
    /// The next one.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Message {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Message(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// How far a message is.
pub enum Tested {
    UnderWay,
    Sent,
    /// Filled with what was sent.
    Received(Incoming),
}
