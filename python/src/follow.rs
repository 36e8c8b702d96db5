//! Buffers that a function of the program gives, at each checkpoint and each restore: programs swap arrays, and make
//! new ones.
//!
//! What must hold: what the function gave is held until the engine's call has ended, and no longer, so that a program
//! keeps no array of an older step.

use crate::{
    buffer::Buffer,
    open::{Open, closed},
    session::Session,
};
use mainstay_engine::{Error, Region, space::format::PlaceInWhole};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct Followed {
    pub(crate) function: Py<PyAny>,
    place: Option<PlaceInWhole>,
    /// What the engine finds, while a call is under way.
    now: Now,
}

#[derive(Clone, Default)]
struct Now(Arc<Mutex<Option<Region>>>);

/// What the functions gave, by name of the region.
pub(crate) type Given = Vec<(String, Buffer)>;

impl Session {
    /// Protects what `function` gives, at each checkpoint and restore anew.
    pub(crate) fn follow(
        &self,
        name: &str,
        function: &Bound<'_, PyAny>,
        place: Option<PlaceInWhole>,
    ) -> Result<(), Error> {
        // It may call this session.
        let buffer = ask(name, function)?;
        let mut state = self.lock()?;
        let open = state.as_mut().ok_or_else(closed)?;
        let region = buffer.region(name, place.clone())?;
        let now = Now::default();
        let engine = open.engine()?;
        engine.protect(region.clone())?;
        now.set(Some(region));
        let found = now.clone();
        let followed = engine.follow(name, move |_| found.get());
        now.set(None);
        if let Err(error) = followed {
            engine.unprotect(name)?;
            return Err(error);
        }
        open.followed.insert(name.to_owned(), Followed { function: function.clone().unbind(), place, now });
        Ok(())
    }

    /// Asks all functions; an error is that of the call that follows, on all ranks.
    pub(crate) fn ask_followed(&self, py: Python<'_>) -> Result<Given, Error> {
        let functions: Vec<(String, Py<PyAny>)> = {
            let mut state = self.lock()?;
            let followed = state.as_mut().map(|open| &open.followed);
            let of = |(name, followed): (&String, &Followed)| (name.clone(), followed.function.clone_ref(py));
            followed.map(|all| all.iter().map(of).collect()).unwrap_or_default()
        };
        let given = |(name, function): (String, Py<PyAny>)| ask(&name, function.bind(py)).map(|buffer| (name, buffer));
        functions.into_iter().map(given).collect()
    }
}

impl Open {
    /// Shows the engine what was given.
    pub(crate) fn show(&self, given: &Result<Given, Error>) -> Result<(), Error> {
        for (name, buffer) in given.as_ref().map_err(Error::clone)? {
            if let Some(followed) = self.followed.get(name) {
                followed.now.set(Some(buffer.region(name, followed.place.clone())?));
            }
        }
        Ok(())
    }

    /// Before what was given is let go.
    pub(crate) fn hide(&self) {
        self.followed.values().for_each(|followed| followed.now.set(None));
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

fn ask(name: &str, function: &Bound<'_, PyAny>) -> Result<Buffer, Error> {
    let told = |error: PyErr| {
        let (py, class) = (function.py(), error.get_type(function.py()));
        let class = class.name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
        let why = format!("the function that gives its buffer raised {class}: {}", error.value(py));
        Error::argument(format!("region {name:?}"), why)
    };
    Buffer::hold(name, &function.call0().map_err(told)?)
}
