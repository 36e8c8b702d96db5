//! Limits the looks for written pages. They cost the program at most a twentieth of its time.

use crate::ground::Instant;
use std::time::Duration;

const SHARE: u32 = 20;
/// A cost that remains unnoticed.
const FREE: Duration = Duration::from_millis(50);
/// The cost of the first write to a page after a look.
const PAGE: Duration = Duration::from_nanos(1000);

#[derive(Debug)]
pub(super) struct Budget {
    begun: Instant,
    spent: Duration,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget { begun: Instant::now(), spent: Duration::ZERO }
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left_after(self.begun.elapsed())
    }

    fn has_left_after(&self, time: Duration) -> bool {
        self.spent <= time / SHARE + FREE
    }

    /// Notes that a look took this processor time, and found this number of pages written.
    pub(super) fn looked(&mut self, took: Duration, pages: usize) {
        self.spent += took + PAGE * u32::try_from(pages).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With every length and frequency of looks, those left out keep the cost within the limit.
    #[test]
    fn looks_take_a_twentieth_of_the_time_at_most() {
        for (every_us, look_us, pages) in
            [(10, 5, 0), (100, 90, 50), (1000, 2000, 10_000), (50_000, 10, 1), (7, 300_000, 0)]
        {
            let (mut budget, mut at, mut looks, mut left_out) = (Budget::new(), Duration::ZERO, 0_u32, 0_u32);
            let costs = Duration::from_micros(look_us) + PAGE * pages;
            while at < Duration::from_secs(60) {
                at += Duration::from_micros(every_us);
                if budget.has_left_after(at) {
                    budget.looked(Duration::from_micros(look_us), pages as usize);
                    at += costs;
                    looks += 1;
                } else {
                    left_out += 1;
                    // A skipped look takes no time. The next moment that counts is far away.
                    at += Duration::from_micros(every_us) * (left_out % 100);
                }
                let spent = costs * looks;
                assert!(spent <= at / SHARE + FREE + costs, "{spent:?} of {at:?}, every {every_us} us");
            }
            assert!(
                looks > 0 && (left_out > 0) == (costs > Duration::from_micros(every_us) / 19),
                "{looks}, {left_out}"
            );
        }
    }
}
