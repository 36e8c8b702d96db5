//! Messages between the ranks of a world in which some may fail: no rank waits for one.

use pyo3::{
    intern,
    prelude::*,
    types::{PyByteArray, PyBytes},
};
use std::mem;

/// Sends without waiting for the receiver.
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
        // MPI may still read it.
        let [bytes, _] = what;
        mem::forget(bytes.unbind());
    }
    // The request is not freed either: Open MPI 5.0.11 ends a process if its send fails after that, for instance a
    // first send over TCP to a dead rank.
    mem::forget(sent.unbind());
    Ok(())
}

/// Receives a message of this many bytes, if one has come.
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
