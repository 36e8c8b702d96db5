//! The module `mpi4py.MPI`, and the abilities of the MPI behind it.

use mainstay_engine::{Error, Result};
use pyo3::{intern, prelude::*, types::PyDict};
use std::env;

/// The module `mpi4py.MPI`, if `comm` is a usable communicator of it.
pub(crate) fn check<'py>(comm: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    let py = comm.py();
    let refused = |why: &str| Error::argument("comm", why);
    let odd = |error: PyErr| refused(&error.value(py).to_string());
    let class = || comm.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let foreign = || refused(&format!("an object of type {} is no communicator of mpi4py; give one, or None", class()));
    // A program with a communicator has imported the module.
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

/// Whether MPI was finalized.
pub(crate) fn is_over(mpi: &Bound<'_, PyAny>) -> bool {
    mpi.call_method0(intern!(mpi.py(), "Is_finalized")).and_then(|over| over.is_truthy()).unwrap_or(true)
}

/// Whether this job was started with `mpiexec --with-ft ulfm` of Open MPI. MPICH has the same calls, too, but ends
/// the program in them.
pub(crate) fn survives(mpi: &Bound<'_, PyAny>) -> PyResult<bool> {
    let enabled = env::var("OMPI_MCA_mpi_ft_enable").unwrap_or_default();
    Ok(is_open_mpi(mpi)? && enabled.starts_with(['1', 't', 'T']))
}

/// Whether ranks may wait for each other in MPI's own way: if that harms nobody, as in `mainstay_mpi_may_be_eager` in
/// C, and if no rank goes on when another one fails.
pub(crate) fn may_be_eager(mpi: &Bound<'_, PyAny>, ranks_here: usize) -> PyResult<bool> {
    Ok(!survives(mpi)? && (is_open_mpi(mpi)? || ranks_here <= processors(mpi.py())?))
}

fn is_open_mpi(mpi: &Bound<'_, PyAny>) -> PyResult<bool> {
    let library: String = mpi.call_method0(intern!(mpi.py(), "Get_library_version"))?.extract()?;
    Ok(library.starts_with("Open MPI"))
}

/// The number of processors of the machine.
pub(crate) fn processors(py: Python<'_>) -> PyResult<usize> {
    let processors: Option<usize> = py.import("os")?.call_method0("cpu_count")?.extract()?;
    Ok(processors.unwrap_or(1).max(1))
}
