//! What waits of a shard whose bytes are compared with an older revision as they come.

use crate::{
    capture::{HandedOver, Late},
    space::format::BLOCK,
};
use std::collections::BTreeMap;

/// What is left of blocks is gathered in so many bytes.
pub(super) const ASIDE_BYTES: usize = 16 * BLOCK;
/// The most bytes that wait for the rest of their blocks.
pub(super) const WAITING_BYTES_MAX: usize = 1 << 20;

/// What is staged of a shard that is compared as it comes.
#[derive(Debug)]
pub(super) struct Comparing {
    pub(super) late: Late,
    /// By the number of its item, the bytes at the end of each stream that wait for the rest of their block.
    pub(super) tails: BTreeMap<usize, Tail>,
    pub(super) waiting_bytes: usize,
    pub(super) aside: Vec<u8>,
    /// What lies in `aside`, one behind the other, with its bytes.
    pub(super) held: Vec<(HandedOver, usize)>,
}

/// Bytes of a stream that follow one another, and have no whole block among them.
#[derive(Debug)]
pub(super) struct Tail {
    /// Where they begin, as of the piece that came last.
    pub(super) handed: HandedOver,
    pub(super) bytes: Vec<u8>,
}

impl Tail {
    pub(super) fn begins(&self) -> u64 {
        self.handed.place().1
    }

    pub(super) fn ends(&self) -> u64 {
        self.begins() + self.bytes.len() as u64
    }
}

impl Comparing {
    pub(super) fn new(late: Late) -> Comparing {
        Comparing { late, tails: BTreeMap::new(), waiting_bytes: 0, aside: Vec::new(), held: Vec::new() }
    }
}
