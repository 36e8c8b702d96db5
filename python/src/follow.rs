//! Buffers that a function of the program gives, at each checkpoint and each restore: programs swap arrays, and make
//! new ones.
//!
//! What must hold: what the function gave is held until the engine's call has ended, and no longer, so that a program
//! keeps no array of an older step.

use crate::buffer::Buffer;
use mainstay_engine::{Error, Region, Session as Engine, space::format::PlaceInWhole};
use pyo3::prelude::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub(crate) struct Followed {
    pub(crate) function: Py<PyAny>,
    place: Option<PlaceInWhole>,
    /// What the engine finds, while a call is under way.
    now: Now,
}

#[derive(Clone, Default)]
struct Now(Arc<Mutex<Option<Region>>>);

/// What the functions gave, by name of the region.
pub(crate) type Given = HashMap<String, Buffer>;

impl Followed {
    /// Protects what `function` gives, which is `buffer` now, at each checkpoint and restore anew.
    pub(crate) fn protect(
        engine: &mut Engine,
        name: &str,
        function: &Bound<'_, PyAny>,
        buffer: &Buffer,
        place: Option<PlaceInWhole>,
    ) -> Result<Followed, Error> {
        let region = buffer.region(name, place.clone())?;
        let now = Now::default();
        engine.protect(region.clone())?;
        now.set(Some(region));
        let found = now.clone();
        let followed = engine.follow(name, move |_| found.get());
        now.set(None);
        if let Err(error) = followed {
            engine.unprotect(name)?;
            return Err(error);
        }
        Ok(Followed { function: function.clone().unbind(), place, now })
    }

    /// Shows the engine what the function gave.
    pub(crate) fn show(&self, name: &str, buffer: &Buffer) -> Result<(), Error> {
        self.now.set(Some(buffer.region(name, self.place.clone())?));
        Ok(())
    }

    /// Before what was given is let go.
    pub(crate) fn hide(&self) {
        self.now.set(None);
    }
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `function` gives for the region `name` now; what it raises goes to `raised`, too.
pub(crate) fn ask(name: &str, function: &Bound<'_, PyAny>, raised: &mut Option<PyErr>) -> Result<Buffer, Error> {
    let told = |error: PyErr| {
        let (py, class) = (function.py(), error.get_type(function.py()));
        let class = class.name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
        let why = format!("the function that gives its buffer raised {class}: {}", error.value(py));
        *raised = Some(error);
        Error::argument(format!("region {name:?}"), why)
    };
    Buffer::hold(name, &function.call0().map_err(told)?)
}
