//! A page counts as settled once it was not written for some ticks.

use super::predictor::{Page, PerPage, Predictor, Tick};
use std::collections::VecDeque;

const TICKS: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Idle {
    tick: u64,
    /// For each page, the last tick that found it written.
    last: PerPage<u64>,
    /// The written pages of each of the last ticks.
    recent: VecDeque<Vec<Page>>,
}

impl Predictor for Idle {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        self.tick += 1;
        tick.written.iter().for_each(|page| *self.last.at(*page) = self.tick);
        self.recent.push_back(tick.written.to_vec());
        if self.recent.len() > TICKS {
            let since = self.tick - TICKS as u64;
            let then = self.recent.pop_front().unwrap_or_default();
            settled.extend(then.into_iter().filter(|page| *self.last.at(*page) <= since));
        }
    }

    fn checkpoint(&mut self) {
        self.recent.clear();
    }
}
