//! A process's knowledge of the size of its node's pool.

use super::layout::Constants;
#[cfg(test)]
use super::{Shared, available::Available};
#[cfg(test)]
use crate::error::Error;
use crate::{ground::Instant, space::format::PoolBound};
use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64},
};

/// This process's knowledge of the pool's size.
#[derive(Debug)]
pub(super) struct Sizes {
    /// The size of one chunk, the same on all members.
    pub(super) chunk_bytes: AtomicU64,
    /// Number of bytes, from the first chunk on, that were checked to have memory and that this process can use.
    pub(super) at_hand: AtomicU64,
    /// Largest number of bytes that ever had memory; chunks beyond it are free.
    pub(super) seen: AtomicU64,
    /// Value of the pool's `made_bytes` when the size of the file was last checked against it.
    pub(super) checked: AtomicU64,
    /// Whether a thread of this process is making memory.
    pub(super) is_making: AtomicBool,
    /// The last look at the free memory.
    pub(super) looked: Mutex<Option<LastLook>>,
    /// Free memory simulated by a test.
    #[cfg(test)]
    pub(super) room: Mutex<Option<Available>>,
    /// Failure that a test injects into making memory.
    #[cfg(test)]
    pub(super) fails: Mutex<Option<Failure>>,
}

#[cfg(test)]
type Failure = fn(&Shared) -> Error;

#[derive(Debug, Clone, Copy)]
pub(super) struct LastLook {
    pub(super) at: Instant,
    /// Bytes needed at that time.
    pub(super) needed: u64,
    pub(super) limit: (u64, PoolBound),
}

impl Sizes {
    pub(super) fn new(constants: &Constants) -> Sizes {
        // The tables of a pool that grows get memory together with its chunks.
        let seen = if constants.grows() { 0 } else { constants.bytes() };
        Sizes {
            chunk_bytes: constants.chunk_bytes.into(),
            at_hand: 0.into(),
            is_making: false.into(),
            seen: seen.into(),
            checked: 0.into(),
            looked: Mutex::new(None),
            #[cfg(test)]
            room: Mutex::new(None),
            #[cfg(test)]
            fails: Mutex::new(None),
        }
    }
}
