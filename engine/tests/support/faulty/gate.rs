//! Holds back the writes of one job's ranks, from some moment until the gate is opened.

use super::lock;
use std::sync::{Condvar, Mutex, PoisonError};

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
}

impl Gate {
    pub fn new() -> Gate {
        Gate { state: Mutex::new((State::NeverClosed, false)), changed: Condvar::new() }
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

    pub(super) fn pass(&self) {
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
