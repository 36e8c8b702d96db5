//! What a checkpoint took.

use crate::space::format::PhaseRecord;

/// What a checkpoint took on this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub revision: u64,
    /// Bytes of all items.
    pub bytes: u64,
    pub phases: PhaseRecord,
}
