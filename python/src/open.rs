//! The state of a session while it is open, and how its calls get at it: one at a time, without the interpreter.

use crate::{
    buffer::Buffer,
    enter::Job,
    error::{caused, detached, raise},
    follow::{Followed, Given, ask},
    stream::{self, Files},
};
use mainstay_engine::{Error, Session as Engine, is_rehearsal, space::format::PlaceInWhole};
use pyo3::prelude::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, TryLockError, atomic::Ordering},
};

/// What a session is while it is open; nothing once it is closed.
pub(crate) struct State(Mutex<Option<Open>>);

pub(crate) struct Open {
    /// Given up only to be closed or dropped.
    pub(crate) engine: Option<Engine>,
    /// What is protected: the engine's regions point into it, so it goes last.
    pub(crate) held: HashMap<String, Buffer>,
    /// What functions give, and the engine sees during a call alone.
    pub(crate) followed: HashMap<String, Followed>,
    pub(crate) files: Files,
    /// Of a loop that is under way.
    pub(crate) steps: Option<Py<PyAny>>,
    /// `None` without a communicator.
    pub(crate) job: Option<Arc<Job>>,
}

impl State {
    pub(crate) fn new(open: Open) -> State {
        State(Mutex::new(Some(open)))
    }

    /// Ours alone, for one call.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Option<Open>>, Error> {
        match self.0.try_lock() {
            Ok(open) => Ok(open),
            Err(TryLockError::Poisoned(open)) => Ok(open.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::argument(
                "session",
                "a call of it is under way in another thread; use a session from one thread at a time",
            )),
        }
    }

    /// Ours alone, unless a call is under way: for the interpreter, which may ask at any moment.
    pub(crate) fn idle(&self) -> Option<MutexGuard<'_, Option<Open>>> {
        self.0.try_lock().ok()
    }

    pub(crate) fn local<T>(&self, py: Python<'_>, call: impl FnOnce(&mut Open) -> Result<T, Error>) -> PyResult<T> {
        let called = self.lock().and_then(|mut open| call(open.as_mut().ok_or_else(closed)?));
        called.map_err(|error| raise(py, &error))
    }

    /// Calls the engine without the interpreter.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.local(py, |open| {
            let engine = open.engine()?;
            detached(py, || call(engine))
        })
    }

    /// A checkpoint begins or ends, or a restore: files that are open on streams are of no use any more.
    pub(crate) fn turn(&self, py: Python<'_>) -> PyResult<()> {
        self.local(py, |open| {
            open.files.turn();
            Ok(())
        })
    }

    /// Has the files that are being written write out what they buffer.
    /// Returns what was raised, too.
    pub(crate) fn flush(&self, py: Python<'_>) -> (Result<(), Error>, Option<PyErr>) {
        // Their own code calls this session.
        let writers = self.lock().map(|mut open| open.as_mut().map(|open| open.files.writers()).unwrap_or_default());
        match writers {
            Ok(writers) => stream::flush(py, &writers),
            Err(error) => (Err(error), None),
        }
    }

    /// As `call`, for what reads or fills the buffers: refused if one is not where it was, or is not given.
    pub(crate) fn call_held<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.held(py, |engine| detached(py, || call(engine)))
    }

    /// The same with the interpreter, for what calls functions of the program.
    pub(crate) fn held<T>(&self, py: Python<'_>, call: impl FnOnce(&mut Engine) -> Result<T, Error>) -> PyResult<T> {
        let mut raised = None;
        let given = self.ask_followed(py, &mut raised);
        let done = self.local(py, |open| {
            let in_place = open.held.iter().try_for_each(|(name, buffer)| buffer.check(py, name));
            let in_place = in_place.and_then(|()| open.show(&given));
            let engine = open.engine()?;
            or_refuse(engine, in_place);
            let called = call(engine);
            raised = raised.take().or_else(|| open.followed.values().find_map(Followed::raised));
            open.hide();
            called
        });
        done.map_err(|error| caused(py, error, raised))
    }

    /// Protects what `function` gives, at each checkpoint and restore anew.
    pub(crate) fn follow(
        &self,
        name: &str,
        function: &Bound<'_, PyAny>,
        place: Option<PlaceInWhole>,
        allocate: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (py, mut raised) = (function.py(), None);
        // It may call this session.
        let asked = ask(name, function, &mut raised);
        let done = self.local(py, |open| {
            let followed = Followed::protect(open.engine()?, name, function, &asked?, place, allocate)?;
            open.followed.insert(name.to_owned(), followed);
            Ok(())
        });
        done.map_err(|error| caused(py, error, raised))
    }

    /// Asks all functions, also those that they protect; an error is that of the call that follows, on all ranks.
    fn ask_followed(&self, py: Python<'_>, raised: &mut Option<PyErr>) -> Result<Given, Error> {
        let mut given = Given::new();
        while let Some((name, function)) = self.unasked(py, &given)? {
            let buffer = ask(&name, function.bind(py), raised)?;
            given.insert(name, buffer);
        }
        Ok(given)
    }

    fn unasked(&self, py: Python<'_>, given: &Given) -> Result<Option<(String, Py<PyAny>)>, Error> {
        let state = self.lock()?;
        let mut followed = state.iter().flat_map(|open| &open.followed);
        let unasked = followed.find(|(name, _)| !given.contains_key(*name));
        Ok(unasked.map(|(name, followed)| (name.clone(), followed.function.clone_ref(py))))
    }

    /// Ends the session in order, together with the other ranks.
    pub(crate) fn end(&self, py: Python<'_>) -> Result<(), Error> {
        // The end of a rehearsal saves the state once more.
        let given = if is_rehearsal() { self.ask_followed(py, &mut None) } else { Ok(Given::new()) };
        // Held to the end: until then other threads are told that a call is under way.
        let mut state = self.lock()?;
        let Some(mut open) = state.take() else { return Ok(()) };
        if let Some(job) = &open.job {
            // The group goes with its communicator.
            job.world().ends.store(true, Ordering::Relaxed);
        }
        let Some(mut engine) = open.engine.take() else { return Ok(()) };
        or_refuse(&mut engine, open.show(&given));
        let closed = detached(py, || engine.close());
        open.hide();
        closed
    }
}

/// What a collective call was given. The other ranks are in the call already: they are told what is wrong here.
pub(crate) fn or_refuse<T: Default>(engine: &mut Engine, given: Result<T, Error>) -> T {
    given.unwrap_or_else(|error| {
        engine.refuse(error);
        T::default()
    })
}

impl Open {
    pub(crate) fn engine(&mut self) -> Result<&mut Engine, Error> {
        self.engine.as_mut().ok_or_else(closed)
    }

    /// Shows the engine what the functions gave.
    fn show(&self, given: &Result<Given, Error>) -> Result<(), Error> {
        for (name, buffer) in given.as_ref().map_err(Error::clone)? {
            if let Some(followed) = self.followed.get(name) {
                followed.show(name, buffer)?;
            }
        }
        Ok(())
    }

    /// Before what was given is let go.
    fn hide(&self) {
        self.followed.values().for_each(Followed::hide);
    }
}

impl Drop for Open {
    /// A session that was not closed waits for its own part of the last revision, without the interpreter.
    fn drop(&mut self) {
        let (engine, job) = (self.engine.take(), self.job.take());
        Python::try_attach(|py| {
            py.detach(|| drop(engine));
            job.iter().for_each(|job| job.leave(py));
        });
    }
}

fn closed() -> Error {
    Error::argument("session", "it is closed; open another one")
}
