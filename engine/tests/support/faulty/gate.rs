//! Holds back the writes of one job's ranks, from some moment until the gate is opened.

use super::lock;
use nix::unistd::gettid;
use std::{
    collections::BTreeSet,
    fs,
    sync::{Condvar, Mutex, PoisonError},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    NeverClosed,
    Closed,
    Opened,
}

#[derive(Debug)]
pub struct Gate {
    state: Mutex<(State, bool)>,
    changed: Condvar,
    /// The threads that came to the gate.
    threads: Mutex<BTreeSet<i32>>,
}

impl Gate {
    pub fn new() -> Gate {
        let state = Mutex::new((State::NeverClosed, false));
        Gate { state, changed: Condvar::new(), threads: Mutex::default() }
    }

    pub fn close(&self) {
        let mut state = lock(&self.state);
        if state.0 == State::NeverClosed {
            state.0 = State::Closed;
        }
        self.changed.notify_all();
    }

    pub fn open(&self) {
        lock(&self.state).0 = State::Opened;
        self.changed.notify_all();
    }

    /// The job's ranks have all ended.
    pub fn job_ended(&self) {
        lock(&self.state).1 = true;
        self.changed.notify_all();
    }

    /// Whether the others count the job as dead.
    pub fn was_closed(&self) -> bool {
        lock(&self.state).0 != State::NeverClosed
    }

    /// Whether all other threads that came to the gate sleep: before it, or without work.
    pub fn is_at_rest(&self) -> bool {
        let own = gettid().as_raw();
        lock(&self.threads).iter().filter(|thread| **thread != own).all(|thread| {
            let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('S'))
        })
    }

    pub(super) fn pass(&self) {
        lock(&self.threads).insert(gettid().as_raw());
        let mut state = lock(&self.state);
        while state.0 == State::Closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the gate has closed or the job has ended.
    pub fn wait_for_closing(&self) {
        let mut state = lock(&self.state);
        while state.0 == State::NeverClosed && !state.1 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
