//! The counts that grow with the ranks, not with their logarithm. The list only becomes shorter, and its numbers smaller.

use super::counts::Quantity::{self, BytesWritten, CollectiveBytes, MemoryHighest};

pub struct Exception {
    phase: &'static str,
    quantity: Quantity,
    /// The most that each further rank adds.
    pub each: f64,
    pub why: &'static str,
}

impl Exception {
    pub fn is_of(&self, phase: &str, quantity: Quantity) -> bool {
        (self.phase, self.quantity) == (phase, quantity)
    }
}

const fn exception(phase: &'static str, quantity: Quantity, each: f64, why: &'static str) -> Exception {
    Exception { phase, quantity, each, why }
}

const REPORTS: &str = "the ranks gather reports of all ranks";
const FIRST_SLOTS: &str = "rank 0 writes the first slot of every portion";

pub const EXCEPTIONS: &[Exception] = &[
    exception("open", CollectiveBytes, 230.0, REPORTS),
    exception("open", MemoryHighest, 1250.0, REPORTS),
    exception("restore", CollectiveBytes, 60.0, REPORTS),
    exception("restore", MemoryHighest, 1250.0, REPORTS),
    exception("first save", BytesWritten, 4096.0, FIRST_SLOTS),
    exception("recover", CollectiveBytes, 620.0, REPORTS),
    exception("recover", MemoryHighest, 1250.0, REPORTS),
    exception("go back", CollectiveBytes, 370.0, REPORTS),
    exception("go back", MemoryHighest, 1250.0, REPORTS),
    exception("save again", CollectiveBytes, 300.0, REPORTS),
    exception("open again", CollectiveBytes, 730.0, REPORTS),
    exception("open again", MemoryHighest, 1250.0, REPORTS),
    exception("come back", CollectiveBytes, 450.0, REPORTS),
    exception("come back", MemoryHighest, 1250.0, REPORTS),
];
