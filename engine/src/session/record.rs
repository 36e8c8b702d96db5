//! The record of a checkpoint: sizes and times.

use crate::space::format::PhaseRecord;

/// The size of a checkpoint on this rank, and the times of its phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub revision: u64,
    /// Bytes of all items.
    pub bytes: u64,
    pub phases: PhaseRecord,
}
