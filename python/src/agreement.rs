//! Agreement of the ranks of a world in which some may fail: MPI's own, and a way around it if that waits forever.
//!
//! Invariant: all live ranks get the same outcome, whichever rank fails meanwhile. No line of Python runs in between.

use crate::{
    ears::Ears,
    messages::{others, sends, takes},
};
use pyo3::{intern, prelude::*, sync::PyOnceLock};
use std::{
    mem, thread,
    time::{Duration, Instant},
};

/// How long a rank looks for the outcome before it listens to others.
const LISTEN: Duration = Duration::from_millis(500);
const NAP_MAX: Duration = Duration::from_micros(500);
/// The tags of outcomes that ranks send each other. Other messages of a world have lower tags, and MPI has no higher
/// ones.
const TOLD: i32 = 0x4000;
const NUMBERS: i32 = 0x4000;

/// The outcome for all live ranks.
pub(crate) struct Outcome {
    /// Their common flags, bit by bit: of all ranks that came, even if some of them are lost.
    pub flags: i32,
    /// Ranks are lost.
    pub has_lost: bool,
}

/// The common `flags` of all live ranks, bit by bit; `None`, on all of them, if ranks are lost. `world`: a
/// communicator of Mainstay alone. Collective.
pub(crate) fn common(mpi: &Bound<'_, PyAny>, world: &Bound<'_, PyAny>, flags: i32) -> PyResult<Option<i32>> {
    let outcome = heard(mpi, world, flags, None)?;
    Ok((!outcome.has_lost).then_some(outcome.flags))
}

/// The same even if ranks are lost, for ranks that come at any time; `ears` finds the deaf ones. Collective.
pub(crate) fn heard(
    mpi: &Bound<'_, PyAny>,
    world: &Bound<'_, PyAny>,
    flags: i32,
    mut ears: Option<Ears<'_>>,
) -> PyResult<Outcome> {
    let py = world.py();
    let tag = TOLD + next_number(mpi, world)? % NUMBERS;
    let lent = py.import(intern!(py, "array"))?.call_method1(intern!(py, "array"), ("i", [flags]))?;
    let request = match world.call_method1(intern!(py, "Iagree"), (&lent,)) {
        Err(error) if is_of_mpi(mpi, &error)? => return Ok(Outcome { flags, has_lost: true }),
        begun => begun?,
    };
    let (since, mut listened) = (Instant::now(), Instant::now());
    loop {
        match request.call_method0(intern!(py, "Test")) {
            Ok(is_over) if is_over.is_truthy()? => {
                return Ok(Outcome { flags: lent.get_item(0)?.extract()?, has_lost: false });
            }
            Ok(_) => {}
            Err(error) if is_of_mpi(mpi, &error)? => {
                let flags = lent.get_item(0)?.extract()?;
                tell(mpi, world, tag, flags);
                return Ok(Outcome { flags, has_lost: true });
            }
            Err(error) => return Err(error),
        }
        if listened.elapsed() >= LISTEN {
            if let Some(flags) = hears(mpi, world, tag) {
                // The lent memory stays MPI's.
                mem::forget((request.unbind(), lent.unbind()));
                return Ok(Outcome { flags, has_lost: true });
            }
            ears.iter_mut().for_each(|ears| ears.listen(mpi, world, tag, since.elapsed()));
            listened = Instant::now();
        }
        py.detach(|| thread::sleep((since.elapsed() / 16).min(NAP_MAX)));
    }
}

/// Whether MPI has raised the error.
pub(crate) fn is_of_mpi(mpi: &Bound<'_, PyAny>, error: &PyErr) -> PyResult<bool> {
    Ok(error.is_instance(mpi.py(), &mpi.getattr(intern!(mpi.py(), "Exception"))?))
}

/// The number of this agreement of `world`: the same on all ranks, because all took part in those before.
fn next_number(mpi: &Bound<'_, PyAny>, world: &Bound<'_, PyAny>) -> PyResult<i32> {
    static KEY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = world.py();
    let made = || mpi.getattr(intern!(py, "Comm"))?.call_method0(intern!(py, "Create_keyval")).map(Bound::unbind);
    let key = KEY.get_or_try_init(py, made)?;
    let number: i32 = world.call_method1(intern!(py, "Get_attr"), (key,))?.extract::<Option<i32>>()?.unwrap_or(0);
    world.call_method1(intern!(py, "Set_attr"), (key, (number + 1) % NUMBERS))?;
    Ok(number)
}

/// Sends the outcome of the agreement of this `tag`, in which ranks were lost, to all others: see `hears`.
fn tell(mpi: &Bound<'_, PyAny>, world: &Bound<'_, PyAny>, tag: i32, flags: i32) {
    // A failed rank does not need it.
    others(world).into_iter().for_each(|rank| drop(sends(mpi, world, rank, tag, &flags.to_ne_bytes())));
}

/// The outcome of the agreement, if another rank has sent it. In Open MPI 5.0.11 a rank can wait forever for an
/// agreement that the others have finished, if the rank that was to pass it on has failed.
fn hears(mpi: &Bound<'_, PyAny>, world: &Bound<'_, PyAny>, tag: i32) -> Option<i32> {
    let told = |rank| takes(mpi, world, rank, tag, size_of::<i32>()).ok().flatten()?.try_into().ok();
    others(world).into_iter().find_map(told).map(i32::from_ne_bytes)
}
