//! Results of a restore.

use pyo3::prelude::*;
use std::collections::BTreeMap;

/// The result of a restore.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Restored {
    revision: u64,
    /// The last step that the program gave to `due` before it saved the revision; None if it gave none.
    step: Option<u64>,
    /// The damage found: parts of the space, and newer revisions that the restore passed over.
    skipped: Vec<String>,
    /// The notes of this rank's program, by name.
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

/// A complete revision, as revisions() lists it.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct ListedRevision {
    revision: u64,
    /// The last step that the program gave to `due` before it saved the revision; None if it gave none.
    step: Option<u64>,
    /// The notes of this rank's program, by name.
    notes: BTreeMap<String, String>,
}

#[pymethods]
impl ListedRevision {
    fn __repr__(&self) -> String {
        format!("<mainstay.ListedRevision: revision {}>", self.revision)
    }
}

impl From<mainstay_engine::ListedRevision> for ListedRevision {
    fn from(listed: mainstay_engine::ListedRevision) -> ListedRevision {
        ListedRevision { revision: listed.revision, step: listed.step, notes: listed.notes }
    }
}
