//! Computes the result of early saving in one interval. Pages wait in a queue for a writer, which takes as many as
//! there is time for. A page that is written again counts as a wasted write.

use super::predictor::{Page, PerPage};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct SpeculativeTally {
    queue: VecDeque<Page>,
    pages: PerPage<PageState>,
    dirty: Vec<Page>,
    credit: u64,
    saved: u64,
    wasted: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum PageState {
    #[default]
    Clean,
    Dirty,
    Waiting,
    Saved,
}

/// The result of an interval, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Pages that the program wrote, each counted once.
    pub dirty: u64,
    /// The pages among them that the checkpoint no longer had to write.
    pub early: u64,
    /// Wasted writes: the page was written again.
    pub wasted: u64,
}

impl SpeculativeTally {
    /// Saves waiting pages, up to `capacity`; unused capacity is not kept.
    pub(crate) fn save(&mut self, capacity: u64) {
        self.credit = capacity;
        while self.credit > 0
            && let Some(page) = self.queue.pop_front()
        {
            let state = self.pages.at(page);
            if *state == PageState::Waiting {
                *state = PageState::Saved;
                (self.credit, self.saved) = (self.credit - 1, self.saved + 1);
            }
        }
    }

    /// The program has written `pages`.
    pub(crate) fn written(&mut self, pages: &[Page]) {
        for page in pages {
            let state = self.pages.at(*page);
            match std::mem::replace(state, PageState::Dirty) {
                PageState::Clean => self.dirty.push(*page),
                PageState::Saved => (self.saved, self.wasted) = (self.saved - 1, self.wasted + 1),
                PageState::Dirty | PageState::Waiting => {}
            }
        }
    }

    /// Queues `pages` that are not saved yet. Pages that were never written take no memory: a predictor may name any
    /// page.
    pub(crate) fn settled(&mut self, pages: &[Page]) {
        for page in pages {
            if let Some(state) = self.pages.seen(*page).filter(|state| **state == PageState::Dirty) {
                *state = PageState::Waiting;
                self.queue.push_back(*page);
            }
        }
    }

    /// The result of the interval so far.
    pub(crate) fn so_far(&self) -> Outcome {
        debug_assert!(self.saved <= self.dirty.len() as u64, "a page was saved that was not written");
        Outcome { dirty: self.dirty.len() as u64, early: self.saved, wasted: self.wasted }
    }

    /// Ends the interval at the checkpoint.
    pub(crate) fn end(&mut self) -> Outcome {
        let outcome = self.so_far();
        for page in self.dirty.drain(..) {
            *self.pages.at(page) = PageState::Clean;
        }
        self.queue.clear();
        (self.saved, self.wasted) = (0, 0);
        outcome
    }
}
