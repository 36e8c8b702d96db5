//! Threads of our own in the program's process.

use crate::error::{Error, Result};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::{
    io,
    thread::{self, JoinHandle, Scope, ScopedJoinHandle},
};

/// Starts a thread that gets none of the program's signals: signals are for the program's own threads.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    without_signals(|| thread::Builder::new().name(name).spawn(work))
}

/// Like `spawn`, for work that borrows.
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    without_signals(|| thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work))
}

fn without_signals<T>(start: impl FnOnce() -> io::Result<T>) -> Result<T> {
    let failed = |e| Error::io("starting", "a thread", e);
    let mut blocked = SigSet::all();
    // A fault of the thread itself, or in memory of the program that it touches, is answered at once.
    for own in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP] {
        blocked.remove(own);
    }
    // A new thread inherits the mask.
    let mask = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(|errno| failed(errno.into()))?;
    let started = start().map_err(failed);
    mask.thread_set_mask().map_err(|errno| failed(errno.into()))?;
    started
}
