//! The ranks of a job, on an mpi4py communicator.
//!
//! mpi4py's methods are called directly, uppercase ones alone: no Python code runs inside a collective,
//! nothing is pickled, and a Ctrl-C waits until the engine's call has returned. mpi4py is imported by
//! whoever has a communicator, never here.

use mainstay_engine::{
    Error, Result,
    group::{Group, broadcast_sized, gather_padded},
};
use pyo3::{
    exceptions::PyValueError,
    intern,
    prelude::*,
    types::{PyByteArray, PyDict},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// So long ranks are looked out for without sleep.
const INSTANT: Duration = Duration::from_micros(50);

pub(crate) struct MpiGroup {
    /// The module `mpi4py.MPI`.
    mpi: Py<PyAny>,
    /// A duplicate, this session's own.
    comm: Py<PyAny>,
    rank: usize,
    size: usize,
    ranks_here: usize,
    pause_max: Duration,
    /// Whether all ranks end the session, and so free the communicator together.
    ends: Arc<AtomicBool>,
}

impl MpiGroup {
    /// Duplicates `comm`. Collective, but for what is no communicator.
    pub(crate) fn new(comm: &Bound<'_, PyAny>, ends: Arc<AtomicBool>) -> Result<MpiGroup> {
        let mpi = check(comm)?;
        Self::duplicate(&mpi, comm, ends)
            .map_err(|error| Error::GroupFailed { what: format!("duplicating: {}", error.value(comm.py())) })
    }

    fn duplicate(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>, ends: Arc<AtomicBool>) -> PyResult<MpiGroup> {
        let comm = comm.call_method0("Dup")?;
        // Errors come back to us, whatever the program does with its own.
        comm.call_method1("Set_errhandler", (mpi.getattr("ERRORS_RETURN")?,))?;
        let (rank, size) = (comm.call_method0("Get_rank")?.extract()?, comm.call_method0("Get_size")?.extract()?);
        let here = comm.call_method1("Split_type", (mpi.getattr("COMM_TYPE_SHARED")?, rank))?;
        let ranks_here: usize = here.call_method0("Get_size")?.extract()?;
        here.call_method0("Free")?;
        let processors: Option<usize> = comm.py().import("os")?.call_method0("cpu_count")?.extract()?;
        let pause_max = pause_max(ranks_here, processors.unwrap_or(1));
        Ok(MpiGroup { mpi: mpi.clone().unbind(), comm: comm.unbind(), rank, size, ranks_here, pause_max, ends })
    }

    /// Calls MPI with the interpreter held; a session that is used too late is told so.
    fn call<T>(
        &self,
        doing: &str,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        let failed = |why: String| Error::GroupFailed { what: format!("{doing}: {why}") };
        Python::try_attach(|py| {
            let (mpi, comm) = (self.mpi.bind(py), self.comm.bind(py));
            if is_over(mpi) {
                return Err(failed("MPI was finalized; close sessions before".to_owned()));
            }
            call(py, mpi, comm).map_err(|error| failed(error.value(py).to_string()))
        })
        .unwrap_or_else(|| Err(failed("the interpreter is ending; close sessions before".to_owned())))
    }

    fn gather_equal(&self, mine: &[u8]) -> Result<Vec<u8>> {
        self.call("all-gather", |py, mpi, comm| {
            let byte = mpi.getattr(intern!(py, "BYTE"))?;
            let all = PyByteArray::new_with(py, mine.len() * self.size, |_| Ok(()))?;
            let mine = PyByteArray::new(py, mine);
            comm.call_method1(intern!(py, "Allgather"), ([mine.as_any(), &byte], [all.as_any(), &byte]))?;
            Ok(all.to_vec())
        })
    }

    /// Waits for the other ranks, as `mainstay_mpi_await` does in C: they may still be writing, and MPI's own waiting would
    /// take the processors away from them. Other threads have the interpreter meanwhile.
    fn wait_asleep(&self, request: &Bound<'_, PyAny>, status: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let (py, since) = (request.py(), Instant::now());
        let is_done = || request.call_method1(intern!(py, "Test"), (status,))?.is_truthy();
        // What failed may be under way still, and has memory that must stay.
        while !is_done().inspect_err(|_| std::mem::forget(request.clone()))? {
            let waited = since.elapsed();
            let pause = if waited > INSTANT { (waited / 16).min(self.pause_max) } else { Duration::ZERO };
            py.detach(|| thread::sleep(pause));
        }
        Ok(())
    }

    fn broadcast_equal(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        self.call("broadcast", |py, mpi, comm| {
            let byte = mpi.getattr(intern!(py, "BYTE"))?;
            let shared = PyByteArray::new(py, bytes);
            comm.call_method1(intern!(py, "Bcast"), ([shared.as_any(), &byte], root))?;
            bytes.copy_from_slice(&shared.to_vec());
            Ok(())
        })
    }
}

impl Group for MpiGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn ranks_here(&self) -> usize {
        self.ranks_here
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        self.call("all-reduce", |py, mpi, comm| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            let shared = PyByteArray::new(py, &bytes);
            let (number, maximum) = (mpi.getattr(intern!(py, "UINT64_T"))?, mpi.getattr(intern!(py, "MAX"))?);
            let given = (mpi.getattr(intern!(py, "IN_PLACE"))?, [shared.as_any(), &number], maximum);
            let request = comm.call_method1(intern!(py, "Iallreduce"), given)?;
            self.wait_asleep(&request, None)?;
            for (value, bytes) in values.iter_mut().zip(shared.to_vec().chunks_exact(8)) {
                *value = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            }
            Ok(())
        })
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        gather_padded(mine, |mine| self.gather_equal(mine))
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        broadcast_sized(bytes, |bytes| self.broadcast_equal(root, bytes))
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        self.call("send", |py, mpi, comm| {
            let byte = mpi.getattr(intern!(py, "BYTE"))?;
            let sent = PyByteArray::new(py, bytes);
            self.wait_asleep(&comm.call_method1(intern!(py, "Isend"), ([sent.as_any(), &byte], to))?, None)
        })
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        self.call("receive", |py, mpi, comm| {
            let (byte, status) = (mpi.getattr(intern!(py, "BYTE"))?, mpi.call_method0(intern!(py, "Status"))?);
            let got = PyByteArray::new_with(py, into.len(), |_| Ok(()))?;
            let tag = mpi.getattr(intern!(py, "ANY_TAG"))?;
            self.wait_asleep(
                &comm.call_method1(intern!(py, "Irecv"), ([got.as_any(), &byte], from, tag))?,
                Some(&status),
            )?;
            let count: usize = status.call_method1(intern!(py, "Get_count"), (&byte,))?.extract()?;
            if count != into.len() {
                return Err(PyValueError::new_err(format!("{count} bytes instead of {}", into.len())));
            }
            into.copy_from_slice(&got.to_vec());
            Ok(())
        })
    }
}

/// The longest sleep between two looks for slower ranks, as `mainstay_mpi_pause_max` in C.
fn pause_max(ranks_here: usize, processors: usize) -> Duration {
    let shared = Duration::from_micros((100 * ranks_here / processors.max(1)) as u64);
    shared.max(Duration::from_micros(500))
}

impl Drop for MpiGroup {
    fn drop(&mut self) {
        // Freeing is collective: a session that one rank just lets go leaves its communicator to MPI.
        if self.ends.load(Ordering::Relaxed) {
            let _ = self.call("free", |_, _, comm| comm.call_method0("Free").map(drop));
        }
    }
}

/// The module `mpi4py.MPI`, if `comm` is a communicator of it that can be used.
fn check<'py>(comm: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    let py = comm.py();
    let refused = |why: &str| Error::argument("comm", why);
    let odd = |error: PyErr| refused(&error.value(py).to_string());
    let class = || comm.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let foreign = || refused(&format!("an object of type {} is no communicator of mpi4py; give one, or None", class()));
    // Who has a communicator has imported the module.
    let modules = py.import("sys").and_then(|sys| sys.getattr("modules")).map_err(odd)?;
    let modules = modules.cast_into::<PyDict>().map_err(|_| foreign())?;
    let Some(mpi) = modules.get_item("mpi4py.MPI").map_err(odd)? else { return Err(foreign()) };
    let is = |name: &str| mpi.getattr(name).and_then(|class| comm.is_instance(&class)).map_err(odd);
    if !is("Comm")? {
        return Err(foreign());
    }
    if !mpi.call_method0("Is_initialized").and_then(|yes| yes.is_truthy()).map_err(odd)? || is_over(&mpi) {
        return Err(refused("MPI is not running; open sessions between MPI.Init and MPI.Finalize"));
    }
    if !comm.is_truthy().map_err(odd)? {
        return Err(refused("the null communicator, as one is that was freed; give one that is in use"));
    }
    if !is("Intracomm")? {
        return Err(refused("an intercommunicator; merge it (comm.Merge()), or give each side a space"));
    }
    Ok(mpi)
}

fn is_over(mpi: &Bound<'_, PyAny>) -> bool {
    mpi.call_method0(intern!(mpi.py(), "Is_finalized")).and_then(|over| over.is_truthy()).unwrap_or(true)
}
