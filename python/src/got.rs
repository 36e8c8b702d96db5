//! Results of Session.get.

use pyo3::prelude::*;

/// The result of Session.get.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Got {
    revision: u64,
    /// Bytes that this rank saved, and that the call filled in.
    bytes: u64,
    /// The damage found: parts of the space, and newer revisions that the call passed over.
    skipped: Vec<String>,
}

#[pymethods]
impl Got {
    fn __repr__(&self) -> String {
        let Got { revision, bytes, skipped } = self;
        format!("<mainstay.Got: {bytes} bytes of revision {revision}, {} passed over>", skipped.len())
    }
}

impl From<mainstay_engine::Got> for Got {
    fn from(got: mainstay_engine::Got) -> Got {
        Got { revision: got.revision, bytes: got.bytes, skipped: got.skipped }
    }
}
