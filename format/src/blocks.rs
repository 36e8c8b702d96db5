//! Adjacent blocks of a portion.

use serde::{Deserialize, Serialize};

/// A stretch of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Blocks {
    pub first: u64,
    pub count: u64,
}

impl Blocks {
    pub fn end(self) -> u64 {
        self.first + self.count
    }
}
