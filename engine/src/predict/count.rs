//! A page counts as settled once it was found written as often as in the interval before.

use super::predictor::{Page, PerPage, Predictor, Tick};

#[derive(Debug, Default)]
pub(super) struct Count {
    interval: u32,
    pages: PerPage<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    interval: u32,
    now: u32,
    /// The count of the interval before.
    before: u32,
}

impl Predictor for Count {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        for page in tick.written {
            let counted = self.pages.at(*page);
            if counted.interval != self.interval {
                let before = if counted.interval + 1 == self.interval { counted.now } else { 0 };
                *counted = Counted { interval: self.interval, now: 0, before };
            }
            counted.now += 1;
            if counted.before > 0 && counted.now >= counted.before {
                settled.push(*page);
            }
        }
    }

    fn checkpoint(&mut self) {
        self.interval += 1;
    }
}
