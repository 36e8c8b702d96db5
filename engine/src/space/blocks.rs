//! Adjacent blocks of a portion.

use serde::{Deserialize, Serialize};

/// A stretch of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Blocks {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Blocks {
    pub(crate) fn end(self) -> u64 {
        self.first + self.count
    }
}
