//! The ranks of a communicator as the engine sees them, for the tests of `group` alone: no session needs all of it yet.

use crate::{error::raise, group::MpiGroup};
use mainstay_engine::{
    Error,
    group::{Group, Message, Tested},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    any::Any,
    sync::{Arc, atomic::AtomicBool},
};

#[pyclass(name = "_Ranks", unsendable)]
pub(crate) struct Ranks {
    group: Box<dyn Group>,
    started: Vec<Message>,
}

#[pymethods]
impl Ranks {
    #[new]
    fn new(comm: &Bound<'_, PyAny>) -> PyResult<Ranks> {
        let group = MpiGroup::new(comm, Arc::new(AtomicBool::new(false))).map_err(raised)?;
        Ok(Ranks { group: Box::new(group), started: Vec::new() })
    }

    #[getter]
    fn rank(&self) -> usize {
        self.group.rank()
    }

    #[getter]
    fn size(&self) -> usize {
        self.group.size()
    }

    fn all_gather(&self, mine: &[u8]) -> PyResult<Vec<Vec<u8>>> {
        self.group.all_gather(mine).map_err(raised)
    }

    fn send(&self, to: usize, bytes: &[u8]) -> PyResult<()> {
        self.group.send(to, bytes).map_err(raised)
    }

    fn receive<'py>(&self, py: Python<'py>, from: usize, bytes: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut into = vec![0; bytes];
        self.group.receive(from, &mut into).map_err(raised)?;
        Ok(PyBytes::new(py, &into))
    }

    /// The number of the message, for `test`.
    fn start_send(&mut self, to: usize, bytes: Vec<u8>) -> PyResult<usize> {
        self.started.push(self.group.start_send(to, Box::new(bytes)).map_err(raised)?);
        Ok(self.started.len() - 1)
    }

    fn start_receive(&mut self, from: usize, bytes: usize) -> PyResult<usize> {
        self.started.push(self.group.start_receive(from, Box::new(vec![0_u8; bytes])).map_err(raised)?);
        Ok(self.started.len() - 1)
    }

    /// `None`: under way. What was received; nothing of what was sent.
    fn test<'py>(&self, py: Python<'py>, message: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(match self.group.test(self.started[message]).map_err(raised)? {
            Tested::UnderWay => None,
            Tested::Sent => Some(PyBytes::new(py, &[])),
            Tested::Received(into) => {
                let into = (into as Box<dyn Any>).downcast::<Vec<u8>>().unwrap_or_default();
                Some(PyBytes::new(py, &into))
            }
        })
    }

    fn failed(&self) -> PyResult<Vec<usize>> {
        self.group.failed().map_err(raised)
    }

    fn shrink(&self) -> PyResult<Ranks> {
        Ok(Ranks { group: self.group.shrink().map_err(raised)?, started: Vec::new() })
    }
}

fn raised(error: Error) -> PyErr {
    Python::attach(|py| raise(py, &error))
}
