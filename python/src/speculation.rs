//! What saving early came to.

use pyo3::prelude::*;

/// What saving early came to on this rank since its session was opened, in blocks of 4 KiB.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Speculation {
    /// Blocks that the program had written when a checkpoint began.
    dirty: u64,
    /// Those of them that the checkpoint did not have to write any more.
    early: u64,
    /// Blocks that were saved early.
    saved: u64,
    /// Those that were saved in vain, as they were written again.
    wasted: u64,
    /// Those that are going to be saved early.
    waiting: u64,
    /// Why nothing is saved early now; empty if it is.
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
