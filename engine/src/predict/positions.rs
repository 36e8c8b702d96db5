//! Learns, from many iterations, the point of an iteration at which a page is last written. Each tick shows only that
//! the write was after one moment and no later than another.

use super::predictor::{Page, PerPage};

const SAMPLES: usize = 16;
/// One sample in this many may be later: iterations do not take equally long.
const LATE: usize = 5;
/// Fewer samples prove little.
const FEW: usize = 3;
const NEVER: u32 = u32::MAX;

/// Moments of an iteration, in microseconds from its beginning: the page was written after the one and no later than the
/// other.
#[derive(Debug, Clone, Copy, Default)]
struct Between {
    after_us: u32,
    until_us: u32,
}

#[derive(Debug)]
struct Known {
    samples: Vec<Between>,
    next: usize,
    settled_us: u32,
    /// The write in the current iteration.
    now: Option<Between>,
}

impl Default for Known {
    fn default() -> Known {
        Known { samples: Vec::new(), next: 0, settled_us: NEVER, now: None }
    }
}

#[derive(Debug, Default)]
pub(super) struct Positions {
    pages: PerPage<Known>,
    /// The pages written in the current iteration.
    written: Vec<Page>,
}

impl Positions {
    /// `page` was written in the current iteration.
    pub(super) fn note(&mut self, page: Page, after_us: u32, until_us: u32) {
        let known = self.pages.at(page);
        if known.now.replace(Between { after_us, until_us }).is_none() {
            self.written.push(page);
        }
    }

    /// The iteration has ended.
    pub(super) fn learn(&mut self) {
        for page in self.written.drain(..) {
            let known = self.pages.at(page);
            if let Some(now) = known.now.take() {
                known.add(now);
            }
        }
    }

    /// Learns the writes of the current iteration from `other`.
    pub(super) fn learn_from(&mut self, other: &mut Positions) {
        for page in &other.written {
            let known = self.pages.at(*page);
            known.now = None;
            if let Some(now) = other.pages.at(*page).now {
                known.add(now);
            }
        }
        self.written.clear();
    }

    /// The time in an iteration from which `page` counts as settled.
    pub(super) fn settled_us(&mut self, page: Page) -> u32 {
        self.pages.at(page).settled_us
    }
}

impl Known {
    fn add(&mut self, sample: Between) {
        if self.samples.len() < SAMPLES {
            self.samples.push(sample);
        } else {
            self.samples[self.next % SAMPLES] = sample;
        }
        self.next += 1;
        let (mut after, count) = ([0; SAMPLES], self.samples.len());
        after.iter_mut().zip(&self.samples).for_each(|(after, sample)| *after = sample.after_us);
        after[..count].sort_unstable();
        let surely = after[count - 1 - count / LATE];
        let until = self.samples.iter().map(|sample| sample.until_us).filter(|until| *until > surely);
        self.settled_us = if count < FEW { NEVER } else { until.min().unwrap_or(NEVER) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_at_other_moments_bring_out_when_a_page_is_written_last() {
        let mut positions = Positions::default();
        assert_eq!(positions.settled_us(7), NEVER);
        for (after, until) in [(0, 100), (40, 140), (20, 60), (10, 50)] {
            positions.note(7, 0, 10);
            positions.note(7, after, until);
            positions.learn();
        }
        // After 40, and no later than 50.
        assert_eq!(positions.settled_us(7), 50);
        positions.learn();
        assert_eq!(positions.settled_us(7), 50, "it was not written");
    }

    #[test]
    fn one_late_iteration_of_many_changes_nothing() {
        let mut positions = Positions::default();
        for round in 0..SAMPLES {
            let late = if round == 3 { 1000 } else { 0 };
            positions.note(0, 40 + late, 50 + late);
            positions.learn();
        }
        assert_eq!(positions.settled_us(0), 50);
    }
}
