//! Finds the fastest of several methods for the same work, while the work is done.

use crate::ground::Instant;
use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

/// The best of this many runs counts: a single run may have met a page fault, or another process.
const TIMES_EACH: usize = 4;

/// The methods take turns; afterwards the fastest is used for good. Threads may share it.
pub(super) struct Trial<const WAYS: usize> {
    turns: AtomicUsize,
    /// The shortest time of each, in picoseconds a byte.
    best: [AtomicU64; WAYS],
}

impl<const WAYS: usize> Trial<WAYS> {
    pub(super) const fn new() -> Self {
        Trial { turns: AtomicUsize::new(0), best: [const { AtomicU64::new(u64::MAX) }; WAYS] }
    }

    /// Runs `work` with the number of the method to use; `bytes`: the amount of work.
    pub(super) fn run(&self, bytes: usize, work: impl FnOnce(usize)) {
        match self.untried() {
            Some(way) => {
                let begun = Instant::now();
                work(way);
                self.note(way, bytes, begun.elapsed());
            }
            None => work(self.fastest()),
        }
    }

    /// The method that has the next turn, until each has had all its turns.
    fn untried(&self) -> Option<usize> {
        let turn = self.turns.load(Ordering::Relaxed);
        (WAYS > 1 && turn < WAYS * TIMES_EACH).then_some(turn % WAYS)
    }

    fn note(&self, way: usize, bytes: usize, took: Duration) {
        let picoseconds = took.as_nanos() * 1000 / bytes.max(1) as u128;
        self.best[way].fetch_min(picoseconds as u64, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    fn fastest(&self) -> usize {
        (0..WAYS).min_by_key(|way| self.best[*way].load(Ordering::Relaxed)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_whose_best_is_the_fastest_is_taken_after_each_had_its_turns() {
        let trial = Trial::<3>::new();
        for turn in 0..3 * TIMES_EACH {
            let way = trial.untried().unwrap();
            assert_eq!(way, turn % 3);
            // The second meets a page fault, but not each time.
            let nanoseconds = [300, if turn == 1 { 900 } else { 100 }, 200][way];
            trial.note(way, 1000, Duration::from_nanos(nanoseconds));
        }
        assert_eq!(trial.untried(), None);
        trial.run(1000, |way| assert_eq!(way, 1));
    }
}
