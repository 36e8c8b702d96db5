//! Results of saving early.

use pyo3::prelude::*;

/// Results of saving early on this rank since the opening of its session, in blocks of 4 KiB.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Speculation {
    /// Blocks that the program had written when a checkpoint began.
    dirty: u64,
    /// Those of them that the checkpoint no longer had to write.
    early: u64,
    /// Blocks that were saved early.
    saved: u64,
    /// Blocks that were saved early in vain, because the program wrote them again.
    wasted: u64,
    /// Blocks that wait to be saved early.
    waiting: u64,
    /// The reason for which Mainstay no longer saves early; empty if it does.
    off: String,
}

#[pymethods]
impl Speculation {
    fn __repr__(&self) -> String {
        let Speculation { dirty, early, wasted, .. } = self;
        format!("<mainstay.Speculation: {early} of {dirty} blocks early, {wasted} in vain>")
    }
}

impl From<mainstay_engine::Speculation> for Speculation {
    fn from(told: mainstay_engine::Speculation) -> Speculation {
        let mainstay_engine::Speculation { dirty, early, saved, wasted, waiting, off } = told;
        Speculation { dirty, early, saved, wasted, waiting, off }
    }
}
