//! Buffers from a function of the program, at each checkpoint and each restore: programs swap arrays, and make new
//! ones.
//!
//! Invariant: a function's buffer is held until the engine's call has ended, and no longer. So no array of an older
//! step stays in memory.

use crate::buffer::Buffer;
use mainstay_engine::{Error, Region, Session as Engine, space::format::PlaceInWhole};
use pyo3::{PyTraverseError, PyVisit, prelude::*, types::PyTuple};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub(crate) struct Followed {
    pub(crate) function: Py<PyAny>,
    place: Option<PlaceInWhole>,
    /// The buffer for the engine, while a call is in progress.
    now: Now,
    resizer: Option<Arc<Resizer>>,
}

/// Asks the program for an array of the saved shape.
struct Resizer {
    /// The function that returns the array, and the one that makes it; `None` once the region is no longer followed.
    functions: Mutex<Option<[Py<PyAny>; 2]>>,
    /// The array made in the present call.
    made: Mutex<Option<Buffer>>,
    raised: Mutex<Option<PyErr>>,
}

#[derive(Clone, Default)]
struct Now(Arc<Mutex<Option<Region>>>);

/// The functions' buffers, by name of the region.
pub(crate) type Given = HashMap<String, Buffer>;

impl Followed {
    /// Protects the buffer that `function` returns, which is `buffer` now. Mainstay calls it again at each checkpoint
    /// and restore.
    pub(crate) fn protect(
        engine: &mut Engine,
        name: &str,
        function: &Bound<'_, PyAny>,
        buffer: &Buffer,
        place: Option<PlaceInWhole>,
        allocate: Option<&Bound<'_, PyAny>>,
    ) -> Result<Followed, Error> {
        let region = buffer.region(name, place.clone())?;
        let now = Now::default();
        engine.protect(region.clone())?;
        now.set(Some(region));
        let found = now.clone();
        let look = move |_: &Region| found.get();
        let resizer = allocate.map(|allocate| {
            let functions = [function.clone().unbind(), allocate.clone().unbind()];
            Arc::new(Resizer {
                functions: Mutex::new(Some(functions)),
                made: Mutex::default(),
                raised: Mutex::default(),
            })
        });
        let followed = match resizer.clone() {
            Some(resizer) => {
                let (name_of, now) = (name.to_owned(), now.clone());
                engine.follow_resizing(name, look, move |shape| resizer.resize(&name_of, shape, &now))
            }
            None => engine.follow(name, look),
        };
        now.set(None);
        if let Err(error) = followed {
            engine.unprotect(name)?;
            return Err(error);
        }
        Ok(Followed { function: function.clone().unbind(), place, now, resizer })
    }

    /// Reports the functions to the garbage collector.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        let resizer = self.resizer.as_ref().and_then(|resizer| resizer.functions.try_lock().ok());
        resizer.iter().flat_map(|functions| functions.iter().flatten()).try_for_each(|one| visit.call(one))
    }

    /// Shows the function's buffer to the engine.
    pub(crate) fn show(&self, name: &str, buffer: &Buffer) -> Result<(), Error> {
        self.now.set(Some(buffer.region(name, self.place.clone())?));
        Ok(())
    }

    /// Hides the buffer before it is released.
    pub(crate) fn hide(&self) {
        self.now.set(None);
        if let Some(resizer) = &self.resizer {
            drop(unpoisoned(&resizer.made).take());
        }
    }

    /// The exception of the function that makes the array.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.resizer.as_ref().and_then(|resizer| unpoisoned(&resizer.raised).take())
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // The engine may still hold the resizer, which the garbage collector does not see there.
        if let Some(resizer) = &self.resizer {
            drop(unpoisoned(&resizer.functions).take());
        }
    }
}

impl Resizer {
    /// Calls the program in the middle of a restore, between two collectives.
    fn resize(&self, name: &str, shape: &[u64], now: &Now) -> Result<(), Error> {
        Python::attach(|py| {
            let functions = unpoisoned(&self.functions).as_ref().map(|all| all.each_ref().map(|one| one.clone_ref(py)));
            let gone = || Error::Internal { what: "a region is resized that is followed no longer".to_owned() };
            let [function, allocate] = functions.ok_or_else(gone)?;
            let mut raised = None;
            let made = PyTuple::new(py, shape)
                .and_then(|shape| allocate.bind(py).call1((shape,)))
                .map_err(|error| told(name, "that makes its buffer", error, py, &mut raised))
                .and_then(|_| ask(name, function.bind(py), &mut raised));
            *unpoisoned(&self.raised) = raised;
            let buffer = made?;
            now.set(Some(buffer.region(name, None)?));
            *unpoisoned(&self.made) = Some(buffer);
            Ok(())
        })
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Now {
    fn set(&self, region: Option<Region>) {
        *self.lock() = region;
    }

    fn get(&self) -> Result<Region, Error> {
        self.lock()
            .clone()
            .ok_or_else(|| Error::Internal { what: "a followed region was asked for in no call".to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Region>> {
        unpoisoned(&self.0)
    }
}

/// The buffer that `function` now returns for the region `name`. Its exception also goes to `raised`.
pub(crate) fn ask(name: &str, function: &Bound<'_, PyAny>, raised: &mut Option<PyErr>) -> Result<Buffer, Error> {
    let given = function.call0().map_err(|error| told(name, "that gives its buffer", error, function.py(), raised))?;
    Buffer::hold(name, &given)
}

/// The error for an exception of a function of the region `name`; `duty` names the function. The exception also goes
/// to `raised`.
fn told(name: &str, duty: &str, error: PyErr, py: Python<'_>, raised: &mut Option<PyErr>) -> Error {
    let class = error.get_type(py);
    let class = class.name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    let why = format!("the function {duty} raised {class}: {}", error.value(py));
    *raised = Some(error);
    Error::argument(format!("region {name:?}"), why)
}
