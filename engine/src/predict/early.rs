//! What is saved early of one interval, as it would come out: pages wait in turn for a writer that takes as many as there
//! is time for, and one that is written again was saved in vain.

use super::predictor::{Page, PerPage};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct EarlyTally {
    queue: VecDeque<Page>,
    pages: PerPage<State>,
    dirty: Vec<Page>,
    credit: u64,
    saved: u64,
    wasted: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Clean,
    Dirty,
    Waiting,
    Saved,
}

/// How an interval went, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Those that were written by the program, each once.
    pub dirty: u64,
    /// Those of them that the checkpoint did not have to write any more.
    pub early: u64,
    /// Writes that were in vain, as the page was written again.
    pub wasted: u64,
}

impl EarlyTally {
    /// Saves what waits, as far as `capacity` more pages reach; what was not used is not kept for later.
    pub(crate) fn save(&mut self, capacity: u64) {
        self.credit = capacity;
        while self.credit > 0
            && let Some(page) = self.queue.pop_front()
        {
            let state = self.pages.at(page);
            if *state == State::Waiting {
                *state = State::Saved;
                (self.credit, self.saved) = (self.credit - 1, self.saved + 1);
            }
        }
    }

    /// The program has written `pages`.
    pub(crate) fn written(&mut self, pages: &[Page]) {
        for page in pages {
            let state = self.pages.at(*page);
            match std::mem::replace(state, State::Dirty) {
                State::Clean => self.dirty.push(*page),
                State::Saved => (self.saved, self.wasted) = (self.saved - 1, self.wasted + 1),
                State::Dirty | State::Waiting => {}
            }
        }
    }

    /// `pages` are to be saved, but those that are already. Those that nobody has written take no memory: a predictor may name any.
    pub(crate) fn settled(&mut self, pages: &[Page]) {
        for page in pages {
            if let Some(state) = self.pages.seen(*page).filter(|state| **state == State::Dirty) {
                *state = State::Waiting;
                self.queue.push_back(*page);
            }
        }
    }

    /// What the interval has come to so far.
    pub(crate) fn so_far(&self) -> Outcome {
        Outcome { dirty: self.dirty.len() as u64, early: self.saved, wasted: self.wasted }
    }

    /// The checkpoint.
    pub(crate) fn end(&mut self) -> Outcome {
        let outcome = self.so_far();
        for page in self.dirty.drain(..) {
            *self.pages.at(page) = State::Clean;
        }
        self.queue.clear();
        (self.saved, self.wasted) = (0, 0);
        outcome
    }
}
