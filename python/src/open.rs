//! The state of an open session, and access for its calls: one at a time, without the interpreter.

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

/// The data of an open session; nothing once it is closed.
pub(crate) struct OpenSession(Mutex<Option<Open>>);

pub(crate) struct Open {
    /// Taken out only to be closed or dropped.
    pub(crate) engine: Option<Engine>,
    /// Protected memory. The engine's regions point into it, so it is dropped last.
    pub(crate) held: HashMap<String, Buffer>,
    /// Buffers from functions, which the engine sees only during a call.
    pub(crate) followed: HashMap<String, Followed>,
    pub(crate) files: Files,
    /// Of a running loop.
    pub(crate) steps: Option<Py<PyAny>>,
    /// `None` without a communicator.
    pub(crate) job: Option<Arc<Job>>,
}

impl OpenSession {
    pub(crate) fn new(open: Open) -> OpenSession {
        OpenSession(Mutex::new(Some(open)))
    }

    /// Exclusive access, for one call.
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

    /// Exclusive access, unless a call is in progress: for the interpreter, which may ask at any moment.
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

    /// Marks a beginning or end of a checkpoint, or a restore: files that are open on streams become useless.
    pub(crate) fn turn(&self, py: Python<'_>) -> PyResult<()> {
        self.local(py, |open| {
            open.files.turn();
            Ok(())
        })
    }

    /// Flushes the files that are being written. Also returns the exception raised.
    pub(crate) fn flush(&self, py: Python<'_>) -> (Result<(), Error>, Option<PyErr>) {
        // Their own code calls this session.
        let writers = self.lock().map(|mut open| open.as_mut().map(|open| open.files.writers()).unwrap_or_default());
        match writers {
            Ok(writers) => stream::flush(py, &writers),
            Err(error) => (Err(error), None),
        }
    }

    /// Like `call`, for calls that read or fill the buffers. Fails if a buffer has moved or a function returns none.
    pub(crate) fn call_held<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.held(py, |engine| detached(py, || call(engine)))
    }

    /// The same with the interpreter, for calls that call functions of the program.
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

    /// Protects the buffer that `function` returns, which Mainstay asks for again at each checkpoint and restore.
    pub(crate) fn follow(
        &self,
        name: &str,
        function: &Bound<'_, PyAny>,
        place: Option<PlaceInWhole>,
        allocate: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (py, mut raised) = (function.py(), None);
        // The function may call this session.
        let asked = ask(name, function, &mut raised);
        let done = self.local(py, |open| {
            let followed = Followed::protect(open.engine()?, name, function, &asked?, place, allocate)?;
            open.followed.insert(name.to_owned(), followed);
            Ok(())
        });
        done.map_err(|error| caused(py, error, raised))
    }

    /// Calls all functions, and also those that they protect. An error becomes the error of the next call, on all
    /// ranks.
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

    /// Ends the session normally, together with the other ranks.
    pub(crate) fn end(&self, py: Python<'_>) -> Result<(), Error> {
        // The end of a rehearsal saves the state once more.
        let given = if is_rehearsal() { self.ask_followed(py, &mut None) } else { Ok(Given::new()) };
        // Held to the end: until then other threads learn that a call is in progress.
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

/// The argument of a collective call. If it is wrong on this rank, tells the other ranks, which are in the call
/// already.
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

    /// Shows the functions' buffers to the engine.
    fn show(&self, given: &Result<Given, Error>) -> Result<(), Error> {
        for (name, buffer) in given.as_ref().map_err(Error::clone)? {
            if let Some(followed) = self.followed.get(name) {
                followed.show(name, buffer)?;
            }
        }
        Ok(())
    }

    /// Hides the buffers before they are released.
    fn hide(&self) {
        self.followed.values().for_each(Followed::hide);
    }
}

impl Drop for Open {
    /// A session that the program did not close waits for its own part of the last revision, without the interpreter.
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
