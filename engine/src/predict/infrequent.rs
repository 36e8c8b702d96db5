//! A page that is written seldom is written once (paper 004, section 3.2): one that was not written in the last two intervals
//! is taken for settled as soon as it is.

use super::predictor::{Page, PerPage, Predictor, Tick};

const INTERVALS: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Infrequent {
    /// The number of the interval under way.
    interval: u32,
    pages: PerPage<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The interval of the last write, counted from 1.
    last: u32,
    /// Whether it was not written in the intervals before that.
    is_rare: bool,
}

impl Predictor for Infrequent {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        let now = self.interval + 1;
        for page in tick.written {
            let seen = self.pages.at(*page);
            if seen.last != now {
                *seen = Seen { last: now, is_rare: now > INTERVALS && now - seen.last > INTERVALS };
            }
            if seen.is_rare {
                settled.push(*page);
            }
        }
    }

    fn checkpoint(&mut self) {
        self.interval += 1;
    }
}
