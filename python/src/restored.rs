//! What came back.

use pyo3::prelude::*;
use std::collections::BTreeMap;

/// What a restore brought back.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Restored {
    revision: u64,
    /// The step that the program had last given to `due` when it saved the revision; None if it had given none.
    step: Option<u64>,
    /// What was found damaged: parts of the space, and newer revisions that were passed over for it.
    skipped: Vec<String>,
    /// What this rank's program noted, by name.
    notes: BTreeMap<String, String>,
}

#[pymethods]
impl Restored {
    fn __repr__(&self) -> String {
        format!("<mainstay.Restored: revision {}, {} passed over>", self.revision, self.skipped.len())
    }
}

impl From<mainstay_engine::Restored> for Restored {
    fn from(restored: mainstay_engine::Restored) -> Restored {
        Restored { revision: restored.revision, step: restored.step, skipped: restored.skipped, notes: restored.notes }
    }
}
