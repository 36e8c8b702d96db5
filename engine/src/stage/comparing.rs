//! The waiting bytes of a shard that is compared with an older revision as it comes.

use crate::{
    capture::{InputPiece, StreamDeduplicator},
    space::format::BLOCK,
};
use std::collections::BTreeMap;

/// Partial blocks are gathered in so many bytes.
pub(super) const ASIDE_BYTES: usize = 16 * BLOCK;
/// Maximum number of bytes that wait for the rest of their blocks.
pub(super) const WAITING_BYTES_MAX: usize = 1 << 20;

/// The staging state of a shard that is compared as it comes.
#[derive(Debug)]
pub(super) struct Comparing {
    pub(super) late: StreamDeduplicator,
    /// By the number of its item, the bytes at the end of each stream that wait for the rest of their block.
    pub(super) tails: BTreeMap<usize, Tail>,
    pub(super) waiting_bytes: usize,
    pub(super) aside: Vec<u8>,
    /// The contents of `aside`, one after the other, with their lengths.
    pub(super) held: Vec<(InputPiece, usize)>,
}

/// Adjacent bytes of a stream without a whole block among them.
#[derive(Debug)]
pub(super) struct Tail {
    /// Their start, as of the last piece.
    pub(super) handed: InputPiece,
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
    pub(super) fn new(late: StreamDeduplicator) -> Comparing {
        Comparing { late, tails: BTreeMap::new(), waiting_bytes: 0, aside: Vec::new(), held: Vec::new() }
    }
}
