//! Memory that the engine allocates, as numpy takes it.

use mainstay_engine::OwnMemory;
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};

/// What an array lies in, and keeps.
#[pyclass(frozen)]
pub(crate) struct Memory {
    pub(crate) memory: OwnMemory,
    pub(crate) shape: Vec<usize>,
    pub(crate) typestr: String,
}

#[pymethods]
impl Memory {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", &self.typestr)?;
        interface.set_item("data", (self.memory.address() as usize, false))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}
