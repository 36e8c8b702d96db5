//! Holds writes back until all ranks have arrived that wait for none.

use super::between::Between;
use mainstay_engine::device::File;
use std::{
    io,
    sync::{Condvar, Mutex},
    time::Duration,
};

/// After this time the writes go on anyway, with a message.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Gate {
    ranks: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    waiting: usize,
    come: usize,
    forced: bool,
}

impl Gate {
    /// The gate is open at first. After a close it opens again once `ranks` ranks have arrived.
    pub fn new(ranks: usize) -> Gate {
        Gate { ranks, state: Mutex::default(), changed: Condvar::new() }
    }

    pub fn shut(&self) {
        self.state.lock().unwrap().shut = true;
    }

    pub fn come(&self) {
        let mut state = self.state.lock().unwrap();
        state.come += 1;
        if state.come == self.ranks {
            state.shut = false;
            self.changed.notify_all();
        }
    }

    /// Returns once a rank waits for a write.
    #[track_caller]
    pub fn until_somebody_waits(&self) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, LONGEST, |state| state.waiting == 0).unwrap().1;
        assert!(!waited.timed_out(), "nobody writes anything");
    }

    #[track_caller]
    pub fn nobody_waited(&self) {
        let state = self.state.lock().unwrap();
        assert_eq!((state.come, state.forced), (self.ranks, false), "somebody waited for a write");
    }
}

impl Between for Gate {
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let (mut state, waited) = self.changed.wait_timeout_while(state, LONGEST, |state| state.shut).unwrap();
        state.waiting -= 1;
        if waited.timed_out() {
            (state.shut, state.forced) = (false, true);
            self.changed.notify_all();
        }
        drop(state);
        file.write_at(bytes, offset)
    }
}
