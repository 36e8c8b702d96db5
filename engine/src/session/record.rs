//! The record of a checkpoint: what it saved, and how long that took.

use crate::space::format::PhaseRecord;

/// What a checkpoint saved on this rank, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub revision: u64,
    /// Bytes of all items.
    pub bytes: u64,
    pub phases: PhaseRecord,
}
