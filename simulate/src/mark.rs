//! The mark of a state.

/// Newer marks are greater. A run is the part of a job between two restores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub run: u64,
    pub step: u64,
}
