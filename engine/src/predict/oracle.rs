//! The answers of a perfect predictor (paper 004, section 4.2): the pages that a recorded interval does not write
//! again.

use super::predictor::{Page, PerPage};

/// The last writes of one interval.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    last: PerPage<usize>,
}

impl Oracle {
    /// Learns an interval from the written pages of each tick.
    pub(super) fn learn<'a>(&mut self, ticks: impl Iterator<Item = &'a [Page]>) {
        for (index, written) in ticks.enumerate() {
            written.iter().for_each(|page| *self.last.at(*page) = index);
        }
    }

    /// Adds those of `written` that the interval does not write after tick number `tick`.
    pub(super) fn tick(&mut self, tick: usize, written: &[Page], settled: &mut Vec<Page>) {
        settled.extend(written.iter().filter(|page| *self.last.at(**page) == tick));
    }
}
