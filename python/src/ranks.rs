//! The ranks of a communicator as the engine sees them, only for the tests of `group`: no session needs all of it
//! yet.

use crate::{
    agreement::common,
    ears::set_patience,
    error::raise,
    group::MpiGroup,
    mpi::check,
    world::{Places, World},
};
use mainstay_engine::{
    Error,
    group::{Divided, Group, Message, Tested},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{any::Any, sync::Arc};

#[pyclass(name = "_Ranks", unsendable)]
pub(crate) struct Ranks {
    group: Box<dyn Group>,
    world: Arc<World>,
    mpi: Py<PyAny>,
    started: Vec<Message>,
}

#[pymethods]
impl Ranks {
    /// With `places`, "filled" or "dropped", the last `spares` ranks wait here.
    #[new]
    #[pyo3(signature = (comm, places=None, spares=0))]
    fn new(comm: &Bound<'_, PyAny>, places: Option<&str>, spares: usize) -> PyResult<Ranks> {
        let mpi = check(comm).map_err(raised)?;
        let places = places.map(|places| if places == "filled" { Places::Filled } else { Places::Dropped });
        if let Some(places) = places
            && let Some(world) = World::join(&mpi, places)?
        {
            return Ranks::of(&mpi, Arc::new(world));
        }
        let own = comm.call_method0("Dup")?;
        own.call_method1("Set_errhandler", (mpi.getattr("ERRORS_RETURN")?,))?;
        let met = World::of_workers(&mpi, &own, comm.clone().unbind())?;
        let world = match places {
            Some(places) => {
                let size: usize = own.call_method0("Get_size")?.extract()?;
                let born: Vec<usize> = (0..size).collect();
                World::with_spares(&mpi, &own, &met, places, &born, size - spares)?
            }
            None => met,
        };
        world.wait(&mpi)?;
        Ranks::of(&mpi, Arc::new(world))
    }

    /// The ranks' common flags, in a world that a test makes.
    #[staticmethod]
    fn common(mpi: &Bound<'_, PyAny>, world: &Bound<'_, PyAny>, flags: i32) -> PyResult<Option<i32>> {
        common(mpi, world, flags)
    }

    /// Sets the seconds for which a rank waits before it asks whether it is heard.
    #[staticmethod]
    fn patience(seconds: u64) {
        set_patience(seconds);
    }

    #[getter]
    fn comm(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.world.comm(py)
    }

    #[getter]
    fn lost(&self) -> Vec<usize> {
        self.world.lost()
    }

    fn adopt(&self, comm: Py<PyAny>) {
        self.world.adopt(comm);
    }

    fn leave(&self, py: Python<'_>) {
        self.world.leave(self.mpi.bind(py));
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

    /// The number of the message, for `test`.
    fn start_send(&mut self, to: usize, bytes: Vec<u8>) -> PyResult<usize> {
        self.started.push(self.group.start_send(to, Box::new(bytes)).map_err(raised)?);
        Ok(self.started.len() - 1)
    }

    fn start_receive(&mut self, from: usize, bytes: usize) -> PyResult<usize> {
        self.started.push(self.group.start_receive(from, Box::new(vec![0_u8; bytes])).map_err(raised)?);
        Ok(self.started.len() - 1)
    }

    /// `None`: in progress. Otherwise the received bytes; none for a sent message.
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

    fn shrink(&self, py: Python<'_>) -> PyResult<Ranks> {
        let group = self.group.shrink(Divided::Unknown).map_err(raised)?;
        Ok(Ranks { group, world: self.world.clone(), mpi: self.mpi.clone_ref(py), started: Vec::new() })
    }
}

impl Ranks {
    fn of(mpi: &Bound<'_, PyAny>, world: Arc<World>) -> PyResult<Ranks> {
        let group = Box::new(MpiGroup::of(mpi, &world)?);
        Ok(Ranks { group, world, mpi: mpi.clone().unbind(), started: Vec::new() })
    }
}

fn raised(error: Error) -> PyErr {
    Python::attach(|py| raise(py, &error))
}
