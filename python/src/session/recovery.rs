//! Recovery from failures of ranks, and loops over steps.

use super::Session;
use crate::{error::raise, number::Whole, recovered::Recovered, settings::shown};
use mainstay_engine::{Error, Session as Engine};
use pyo3::{intern, prelude::*};
use std::{mem::replace, sync::atomic::Ordering};

#[pymethods]
impl Session {
    /// Goes on without the failed ranks. Every surviving rank calls it after a GroupFailed of this session, or an
    /// MPI.Exception of the program's own messages, wherever the rank was. Spares, or newly started processes, take
    /// the places of the failed ranks; with recovery="shrink" there are fewer ranks. `comm` is then a new
    /// communicator, and `rank` and `size` have their new values. Regions stay protected. Call restore() next, on all
    /// ranks. InvalidArgument: recovery is off. After any other error the session is over: restart the job.
    /// Collective among the surviving ranks. steps() does it by itself.
    fn recover(&self, py: Python<'_>) -> PyResult<Recovered> {
        self.state.turn(py)?;
        let (recovered, rank) =
            self.state.call(py, |engine| engine.recover().map(|recovered| (recovered, engine.rank())))?;
        self.rank.store(rank, Ordering::Relaxed);
        self.size.store(recovered.ranks, Ordering::Relaxed);
        Ok(Recovered::from(recovered))
    }

    /// Raises GroupFailed if this rank knows of failed ranks: for programs that ignore the errors of their own
    /// messages. Local, never waits. steps() does it after each step. With recovery off it does nothing.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self._recovers() { self.state.call(py, Engine::check) } else { self.state.local(py, |_| Ok(())) }
    }

    /// The numbers of the remaining steps, up to `count - 1`, for a loop with a step as its body:
    ///
    ///     for step in session.steps(1000, layout):
    ///         with session.recovering():
    ///             ...
    ///
    /// It restores before the first step, and takes a checkpoint after each step for which due() is true. With
    /// recovery on, all ranks start again after a failure of a rank: at the newest revision, or, if there is none
    /// yet, at step 0. `layout`, a function of the session, is called before each restore(). It makes this rank's
    /// arrays for the present ranks, on `comm`, with their initial values, and protects them; the regions of the call
    /// before are released. Without a layout the arrays are those that you have protected, and are saved before the
    /// first step. Other exceptions pass through, and so do those of MPI if no rank has failed. One loop at a time.
    #[pyo3(signature = (count, layout=None))]
    fn steps<'py>(
        slf: &Bound<'py, Self>,
        count: Whole<u64>,
        layout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().state.local(slf.py(), |_| match layout {
            Some(layout) if !layout.is_callable() => {
                Err(Error::argument("layout", format!("{} is none, it takes a function of the session", shown(layout))))
            }
            _ => Ok(()),
        })?;
        recovery(slf.py())?.call_method1(intern!(slf.py(), "Steps"), (slf, count.0, layout))?.call_method0("run")
    }

    /// A context manager around the whole body of a loop over steps(). It keeps a GroupFailed or MPI.Exception for
    /// steps(), which recovers and goes on. It must be inside the loop, because Python cannot run the body of a
    /// `with` a second time. With recovery off it does nothing.
    fn recovering<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        recovery(slf.py())?.call_method1(intern!(slf.py(), "Recovering"), (slf,))
    }

    /// For steps: whether the session recovers from failures.
    #[getter]
    fn _recovers(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.recovers())
    }

    /// For steps: the names of all regions, and of the memory of empty().
    fn _names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.state.local(py, |open| {
            let allocated = open.engine()?.allocated()?;
            Ok(open.held.keys().chain(open.followed.keys()).cloned().chain(allocated).collect())
        })
    }

    /// For steps: the running loop.
    #[getter]
    fn _steps(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.state.local(py, |open| Ok(open.steps.as_ref().map(|steps| steps.clone_ref(py))))
    }

    #[setter(_steps)]
    fn set_steps(&self, py: Python<'_>, steps: Option<Py<PyAny>>) -> PyResult<()> {
        let before =
            self.state.lock().map_err(|error| raise(py, &error))?.as_mut().map(|open| replace(&mut open.steps, steps));
        drop(before);
        Ok(())
    }
}

fn recovery(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "mainstay._recovery"))
}
