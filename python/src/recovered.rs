//! Results of a recovery.

use pyo3::prelude::*;

/// The result of a recovery.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Recovered {
    /// The lost ranks, by their former numbers.
    lost: Vec<usize>,
    /// The number of ranks before.
    ranks_before: usize,
    /// The number of ranks now.
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
