//! A revision in a report.

use super::bounds::NUMBER_MAX;
use serde::{Deserialize, Serialize};

/// A revision that is complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Saved {
    pub lineage: u64,
    pub revision: u64,
    /// t1, nanoseconds since 1970.
    pub saved_unix_ns: Option<u64>,
}

impl Saved {
    /// Newer revisions have a higher one.
    pub fn key(&self) -> (u64, u64) {
        (self.lineage, self.revision)
    }

    pub(super) fn is_in_bounds(&self) -> bool {
        self.lineage < NUMBER_MAX && self.revision < NUMBER_MAX
    }
}
