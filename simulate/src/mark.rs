//! The mark of a state.

/// Newer marks are greater: a run is the time between two openings or rewinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub run: u64,
    pub step: u64,
}
