//! Decides whether early saving goes on. It stops while it wastes more than it saves, and resumes once it would save
//! more.

use crate::predict::{Outcome, Page, SpeculativeTally};

/// The weight of past intervals after each further interval.
const KEEPS: f64 = 0.5;
/// Fewer wasted blocks do not shut the gate.
const FEW: f64 = 16.0;

#[derive(Debug, Default)]
pub(super) struct Gate {
    early: f64,
    wasted: f64,
    is_shut: bool,
    /// The outcome that early saving would have had while the gate is shut.
    rehearsed: SpeculativeTally,
}

impl Gate {
    pub(super) fn is_open(&self) -> bool {
        !self.is_shut
    }

    /// Counts a tick while the gate is shut, with the written and the settled pages.
    pub(super) fn rehearse(&mut self, capacity: u64, written: &[Page], settled: &[Page]) {
        self.rehearsed.save(capacity);
        self.rehearsed.written(written);
        self.rehearsed.settled(settled);
    }

    /// Ends an interval with these numbers of blocks saved `early` and `wasted`. Returns whether the gate shuts now.
    pub(super) fn end(&mut self, early: u64, wasted: u64) -> bool {
        let Outcome { early, wasted, .. } = match self.is_shut {
            false => Outcome { dirty: 0, early, wasted },
            true => self.rehearsed.end(),
        };
        self.early = KEEPS * self.early + early as f64;
        self.wasted = KEEPS * self.wasted + wasted as f64;
        let was_shut = std::mem::replace(&mut self.is_shut, self.wasted > self.early.max(FEW));
        self.is_shut && !was_shut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shuts_while_more_is_wasted_than_saved() {
        let mut gate = Gate::default();
        assert!(!gate.end(1000, 500) && gate.is_open());
        assert!(!gate.end(0, 10) && gate.is_open(), "half of what was saved before counts");
        assert!(gate.end(0, 1000) && !gate.is_open());
        assert!(!gate.end(0, 0) && !gate.is_open(), "it was shut before");
        for _ in 0..8 {
            gate.rehearse(100, &(0..50).collect::<Vec<_>>(), &(0..50).collect::<Vec<_>>());
            gate.rehearse(100, &[], &[]);
            assert!(!gate.end(0, 0));
        }
        assert!(gate.is_open(), "it would have saved all");
        assert!(!gate.end(0, 8) && gate.is_open(), "few say nothing");
    }
}
