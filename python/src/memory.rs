//! Memory that the engine allocates, for numpy.

use mainstay_engine::OwnMemory;
use pyo3::{prelude::*, types::PyDict};

/// The memory of an array, which keeps it.
#[pyclass(frozen)]
pub(crate) struct Memory {
    pub(crate) memory: OwnMemory,
    pub(crate) bytes: usize,
}

#[pymethods]
impl Memory {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.bytes,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.memory.address() as usize, false))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}
