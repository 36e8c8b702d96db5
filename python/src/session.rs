//! A session: its opening and its end. Each file of the folder has the methods for one noun.

mod buffers;
mod recovery;
mod regions;
mod revisions;
mod shards;
mod streams;

use crate::{
    enter::{Job, enter},
    error::{detached, of_all, raise},
    mpi::check,
    open::{Open, OpenSession},
    settings::{config, path as path_of},
    stream::Files,
    wire::MpiWire,
};
use mainstay_engine::Session as Engine;
use pyo3::{
    PyTraverseError, PyVisit,
    exceptions::PyBaseException,
    intern,
    prelude::*,
    types::{PyDict, PyType},
};
use std::{
    collections::HashMap,
    mem::take,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// One job at work on one space; `open` makes it. One thread at a time may use it. The end of a `with` block closes
/// it. It cannot be pickled or used in a forked process.
#[pyclass(frozen, module = "mainstay")]
pub struct Session {
    path: PathBuf,
    rank: AtomicUsize,
    size: AtomicUsize,
    /// `None` without a communicator.
    job: Option<Arc<Job>>,
    pub(crate) state: OpenSession,
}

/// Opens the space in the directory `path` for the ranks of the mpi4py communicator `comm`, which is duplicated, or
/// for this process alone. Makes the directory if it is missing. Collective.
///
/// Settings that you do not pass come from the environment (MAINSTAY_KEEP and so on), from mainstay.toml, or from the
/// defaults; `mainstay config` lists them all. `hints`, a mapping or an MPI.Info, go before the others:
/// striping_factor, striping_unit and cb_nodes as in MPI-IO, and mainstay_ before the name of a setting. Unknown
/// hints are ignored.
#[pyfunction]
#[pyo3(
    signature = (path, comm=None, **settings),
    text_signature = "(path, comm=None, *, keep=None, capture=None, compress=None, track=None, audit=None, predictor=None, infrequent_seconds=None, stagger=None, oracle=None, snapshot_bytes=None, stage=None, pool_bytes=None, chunk_bytes=None, pool_held=None, \
                      small_bytes=None, threshold_bytes=None, buffer_bytes=None, flush_seconds=None, io_threads=None, \
                      portion_bytes=None, shard_bytes=None, per=None, allocate=None, stripe_count=None, stripe_bytes=None, \
                      pool_directory=None, memory=None, memory_keep=None, memory_copies=None, memory_after=None, disk=None, disk_every=None, \
                      disk_keep=None, disk_copies=None, disk_lost=None, exchange=None, pfs_every=None, start=None, recovery=None, spares=None, every_steps=None, every_seconds=None, mtbf_seconds=None, agree_seconds=None, when_busy=None, checkpoint_signal=None, trace=None, tick_seconds=None, hints=None)"
)]
pub fn open(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    comm: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Session> {
    Session::open(py, path, comm, settings)
}

impl Session {
    /// Transport between the program's objects; `None` without a communicator.
    pub(crate) fn wire(&self, py: Python<'_>) -> Option<MpiWire> {
        self.job.as_ref().map(|job| job.wire(py))
    }

    fn open(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        comm: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Session> {
        let given = path_of("path", path).and_then(|path| Ok((path, config(settings)?)));
        if comm.is_some() {
            py.import(intern!(py, "mainstay._uncaught"))?.call_method0(intern!(py, "install"))?;
        }
        let (group, job, path, config) = enter(py, comm, given)?;
        let rank = group.rank();
        let opened = detached(py, || Engine::open(group, &path, config)).map_err(|error| {
            // Spares wait until the workers have left.
            job.iter().for_each(|job| job.leave(py));
            raise(py, &error)
        });
        let engine = of_all(py, rank, true, opened)?;
        let (rank, size) = (engine.rank().into(), engine.size().into());
        let job = job.map(Arc::new);
        let open = Open {
            engine: Some(engine),
            held: HashMap::new(),
            followed: HashMap::new(),
            files: Files::default(),
            steps: None,
            job: job.clone(),
        };
        Ok(Session { path, rank, size, job, state: OpenSession::new(open) })
    }
}

#[pymethods]
impl Session {
    /// This process's number among the working ranks; it changes if ranks are lost and not replaced.
    #[getter]
    pub(crate) fn rank(&self) -> usize {
        self.rank.load(Ordering::Relaxed)
    }

    /// The number of working ranks.
    #[getter]
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// The program's communicator of the working ranks: with recovery one of its own, and a new one after each
    /// recovery; otherwise the one that you passed to open(). `None` without one.
    #[getter]
    fn comm(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.job.as_ref()?.world().comm(py)
    }

    /// Adopts a communicator that the program has made from `comm`, with Split() or Create_cart(). A recovery revokes
    /// it like `comm` itself, so no rank waits in it, and then forgets it. Local.
    fn adopt(&self, comm: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = comm.py();
        check(comm).map_err(|error| raise(py, &error))?;
        if let Some(job) = &self.job {
            job.world().adopt(comm.clone().unbind());
        }
        Ok(())
    }

    /// Waits for the last revision and ends the session, even if it raises. Collective, before MPI.Finalize. A second
    /// call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.end(py).map_err(|error| raise(py, &error))
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        slf.get().state.local(py, |_| Ok(()))?;
        Ok(slf)
    }

    /// Closes. After an exception, which may be this rank's alone, it closes without the other ranks: this rank's
    /// part of the last revision becomes durable, and the exception goes on.
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception_type: Option<Bound<'_, PyType>>,
        exception: Option<Bound<'_, PyBaseException>>,
        _traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Some(exception) = exception else { return self.close(py) };
        let ended =
            if self.size() == 1 { self.state.end(py) } else { self.state.lock().map(|mut open| drop(open.take())) };
        if let Err(error) = ended {
            // Python 3.10 has no notes.
            let note = format!("mainstay: closing the session failed too: {error}");
            let _ = exception.call_method1(intern!(py, "add_note"), (note,));
        }
        Ok(())
    }

    /// A function of the program often holds the object that holds this session.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.state.idle() {
            Some(open) => open.iter().try_for_each(|open| {
                visit.call(&open.steps)?;
                open.followed.values().try_for_each(|one| one.traverse(&visit))
            }),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        let followed = self
            .state
            .idle()
            .and_then(|mut open| open.as_mut().map(|open| (take(&mut open.followed), open.steps.take())));
        // Their own code may run now.
        drop(followed);
    }

    fn __repr__(&self) -> String {
        let state = match self.state.idle() {
            Some(open) if open.is_none() => "closed",
            Some(_) => "open",
            None => "at work",
        };
        format!("<mainstay.Session on {:?}, rank {} of {}, {state}>", self.path, self.rank(), self.size())
    }
}
