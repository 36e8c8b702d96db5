//! A page that is rarely written is written once (paper 004, section 3.2). A page that was not written in the last two
//! intervals is settled as soon as it is written. If a time is given, so is a page that was not written for that long.

use super::predictor::{Page, PerPage, Predictor, Tick};
use std::time::Duration;

const INTERVALS: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Infrequent {
    /// The time after which a page counts as rare too.
    after_us: Option<u64>,
    /// The number of the current interval.
    interval: u32,
    pages: PerPage<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The interval of the last write, counted from 1.
    last: u32,
    /// The time of the last write.
    at_us: u64,
    /// Whether it was not written in the intervals before that.
    is_rare: bool,
}

impl Infrequent {
    pub(super) fn new(after: Option<Duration>) -> Infrequent {
        Infrequent { after_us: after.map(|after| after.as_micros() as u64), ..Infrequent::default() }
    }
}

impl Predictor for Infrequent {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        let now = self.interval + 1;
        for page in tick.written {
            let seen = self.pages.at(*page);
            let was_long_ago =
                self.after_us.is_some_and(|after| seen.last > 0 && tick.at_us.saturating_sub(seen.at_us) >= after);
            if seen.last != now {
                seen.is_rare = now > INTERVALS && now - seen.last > INTERVALS;
            }
            (seen.last, seen.at_us) = (now, tick.at_us);
            if seen.is_rare || was_long_ago {
                settled.push(*page);
            }
        }
    }

    fn checkpoint(&mut self) {
        self.interval += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settled pages at each tick of one interval, with these times.
    fn settled(predictor: &mut Infrequent, ticks: &[(u64, &[Page])]) -> Vec<Vec<Page>> {
        let tick = |(at_us, written): &(u64, &[Page])| {
            let mut settled = Vec::new();
            predictor.tick(&Tick { at_us: *at_us, is_mark: false, written, capacity: 10 }, &mut settled);
            settled
        };
        ticks.iter().map(tick).collect()
    }

    #[test]
    fn a_page_that_was_not_written_for_so_long_is_settled_in_any_interval() {
        let mut predictor = Infrequent::new(Some(Duration::from_micros(50)));
        let none: &[Page] = &[];
        // A page without earlier writes proves nothing.
        let ticks: [(u64, &[Page]); 4] = [(0, &[1, 2]), (30, &[1]), (60, &[1, 2]), (110, &[1])];
        assert_eq!(settled(&mut predictor, &ticks), [none, none, &[2], &[1]]);
        predictor.checkpoint();
        assert_eq!(settled(&mut predictor, &[(120, &[1, 2]), (140, &[2])]), [&[2], none]);
        let mut without = Infrequent::new(None);
        assert!(settled(&mut without, &ticks).iter().all(Vec::is_empty));
    }
}
