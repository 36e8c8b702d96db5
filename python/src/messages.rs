//! Messages between the ranks of a world in which some may fail: nobody waits for one.

use pyo3::{
    intern,
    prelude::*,
    types::{PyByteArray, PyBytes},
};
use std::mem;

/// Sends without waiting for who is to get it.
pub(crate) fn sends(
    mpi: &Bound<'_, PyAny>,
    world: &Bound<'_, PyAny>,
    rank: i32,
    tag: i32,
    bytes: &[u8],
) -> PyResult<()> {
    let py = world.py();
    let what = [PyBytes::new(py, bytes).into_any(), mpi.getattr(intern!(py, "BYTE"))?];
    let sent = world.call_method1(intern!(py, "Isend"), (&what, rank, tag))?;
    if !bytes.is_empty() {
        // MPI may read it still.
        let [bytes, _] = what;
        mem::forget(bytes.unbind());
    }
    // Nor is the request freed: Open MPI 5.0.11 ends the process whose send fails after that, as one over TCP does to a rank that
    // has died without having been spoken to before.
    mem::forget(sent.unbind());
    Ok(())
}

/// Takes a message of so many bytes, if one has come.
pub(crate) fn takes(
    mpi: &Bound<'_, PyAny>,
    world: &Bound<'_, PyAny>,
    rank: i32,
    tag: i32,
    bytes: usize,
) -> PyResult<Option<Vec<u8>>> {
    let py = world.py();
    if !world.call_method1(intern!(py, "Iprobe"), (rank, tag))?.is_truthy()? {
        return Ok(None);
    }
    let into = PyByteArray::new_with(py, bytes, |_| Ok(()))?;
    let lent = [into.as_any(), &mpi.getattr(intern!(py, "BYTE"))?].map(Bound::clone);
    world.call_method1(intern!(py, "Recv"), (lent, rank, tag))?;
    Ok(Some(into.to_vec()))
}

pub(crate) fn others(world: &Bound<'_, PyAny>) -> Vec<i32> {
    let number = |name| world.call_method0(name).and_then(|number| number.extract::<i32>());
    let (Ok(size), Ok(mine)) = (number("Get_size"), number("Get_rank")) else { return Vec::new() };
    (0..size).filter(|rank| *rank != mine).collect()
}
