//! What a recovery has changed.

use pyo3::prelude::*;

/// What a recovery has changed.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Recovered {
    /// The ranks that were lost, by the numbers that they had.
    lost: Vec<usize>,
    /// How many ranks there were.
    ranks_before: usize,
    /// How many there are now.
    ranks: usize,
}

#[pymethods]
impl Recovered {
    fn __repr__(&self) -> String {
        format!("Recovered(lost={:?}, ranks_before={}, ranks={})", self.lost, self.ranks_before, self.ranks)
    }
}

impl From<mainstay_engine::Recovered> for Recovered {
    fn from(recovered: mainstay_engine::Recovered) -> Recovered {
        let mainstay_engine::Recovered { lost, ranks_before, ranks } = recovered;
        Recovered { lost, ranks_before, ranks }
    }
}
