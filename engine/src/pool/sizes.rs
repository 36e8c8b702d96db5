//! What a process knows of the size of its node's pool.

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

/// What this process knows of the pool's size.
#[derive(Debug)]
pub(super) struct Sizes {
    /// The size of one chunk, the same on all members.
    pub(super) chunk_bytes: AtomicU64,
    /// How many bytes, from the first chunk on, have their memory, as was checked, and are at hand.
    pub(super) at_hand: AtomicU64,
    /// The most bytes that ever had memory: chunks beyond are nobody's.
    pub(super) seen: AtomicU64,
    /// What the pool's word of its memory said when the file was last found to have been given that much.
    pub(super) checked: AtomicU64,
    /// Whether a thread of this process makes memory.
    pub(super) is_making: AtomicBool,
    /// The last look at what is free.
    pub(super) looked: Mutex<Option<LastLook>>,
    /// What a test has the pool find free.
    #[cfg(test)]
    pub(super) room: Mutex<Option<Available>>,
    /// The failure that a test has making memory come to.
    #[cfg(test)]
    pub(super) fails: Mutex<Option<Failure>>,
}

#[cfg(test)]
type Failure = fn(&Shared) -> Error;

#[derive(Debug, Clone, Copy)]
pub(super) struct LastLook {
    pub(super) at: Instant,
    /// How much was needed at that time.
    pub(super) needed: u64,
    pub(super) limit: (u64, PoolBound),
}

impl Sizes {
    pub(super) fn new(constants: &Constants) -> Sizes {
        // The tables of a pool that grows get their memory with its chunks.
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
