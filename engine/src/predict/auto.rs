//! Scores the other predictors as if each had saved pages, and follows the best. Does nothing if none saves more than
//! it wastes.
//!
//! Invariant: the allowance for waste grows with the program's writes, and the waste stays within it. An interval that
//! uses up the allowance is stopped on the way; the next ones wait until there is some again.

use super::{
    count::Count,
    idle::Idle,
    infrequent::Infrequent,
    phase::Phase,
    predictor::{Page, Predictor, Tick},
    tally::{Outcome, SpeculativeTally},
};
use std::time::Duration;

/// The fraction of a score that remains after another interval: programs go from phase to phase.
const KEEPS: f64 = 0.7;
/// Allowed extra writes for each page that the program writes. Waste found after an interval was stopped comes on top,
/// so the total seldom exceeds 0.2.
const MAY_WASTE: f64 = 0.15;
/// The same, while the followed predictions have wasted more than they saved.
const MAY_WASTE_IN_VAIN: f64 = 0.03;
/// The fraction of the score of followed predictions that remains after another interval.
const REMEMBERS: f64 = 0.9;
/// Unused allowance is kept up to the writes of this many intervals.
const SAVED_UP: f64 = 2.0;
/// A predictor must be better than the current one, or than none, by this much to replace it; as a fraction of the
/// program's writes.
const BETTER: f64 = 0.03;
/// Intervals after which predictors can be judged. Until then the most careful one is used: it predicts only events
/// that it has seen several times.
const LEARNS: u64 = 2;
/// The weight of waste in this time.
const LEARNING: f64 = 0.5;
const PHASE: usize = 0;
const _: () = assert!(0.0 < MAY_WASTE_IN_VAIN && MAY_WASTE_IN_VAIN < MAY_WASTE && MAY_WASTE < 1.0);
const _: () = assert!(KEEPS < 1.0 && REMEMBERS < 1.0, "a score grows for ever");

pub(super) struct Auto {
    tried: Vec<Candidate>,
    best: Option<usize>,
    /// Number of intervals.
    seen: u64,
    /// Remaining allowance of wasted writes; below 0 if it was exceeded.
    may_waste: f64,
    /// The score of the followed predictions.
    done: Score,
}

struct Candidate {
    predictor: Box<dyn Predictor>,
    early: SpeculativeTally,
    settled: Vec<Page>,
    score: Score,
}

/// Pages of earlier intervals; the last counts most.
#[derive(Debug, Default)]
struct Score {
    dirty: f64,
    early: f64,
    wasted: f64,
}

impl Auto {
    pub(super) fn new(after: Option<Duration>) -> Auto {
        let others: [Box<dyn Predictor>; 4] = [
            Box::<Phase>::default(),
            Box::<Count>::default(),
            Box::new(Infrequent::new(after)),
            Box::<Idle>::default(),
        ];
        let tried = others.into_iter().map(|predictor| Candidate {
            predictor,
            early: SpeculativeTally::default(),
            settled: Vec::new(),
            score: Score::default(),
        });
        Auto { tried: tried.collect(), best: Some(PHASE), seen: 0, may_waste: 0.0, done: Score::default() }
    }

    fn may_waste_of_dirty(&self) -> f64 {
        if self.done.gain() < 0.0 { MAY_WASTE_IN_VAIN } else { MAY_WASTE }
    }

    /// The predictor to follow from now on, if any saves more than it wastes.
    fn choose(&self) -> Option<usize> {
        let gain = |index: usize| self.tried[index].score.gain();
        let best = (0..self.tried.len()).max_by(|one, other| gain(*one).total_cmp(&gain(*other)))?;
        let now = self.best.filter(|now| gain(*now) > 0.0);
        if gain(best) > now.map_or(0.0, gain) + BETTER { Some(best) } else { now }
    }
}

impl Predictor for Auto {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        let more = self.may_waste_of_dirty();
        for Candidate { predictor, early, settled, .. } in &mut self.tried {
            early.save(tick.capacity);
            early.written(tick.written);
            settled.clear();
            predictor.tick(tick, settled);
            // Each predictor is judged as it would have been stopped.
            if early.so_far().wasted as f64 > self.may_waste + more * early.so_far().dirty as f64 {
                settled.clear();
            }
            early.settled(settled);
        }
        settled.extend(self.best.iter().flat_map(|best| &self.tried[*best].settled));
    }

    fn checkpoint(&mut self) {
        self.seen += 1;
        let has_learnt = self.seen > LEARNS;
        let mut outcomes = Vec::with_capacity(self.tried.len());
        for Candidate { predictor, early, score, .. } in &mut self.tried {
            predictor.checkpoint();
            let outcome = early.end();
            outcomes.push(outcome);
            if has_learnt {
                score.add(outcome, KEEPS);
            }
        }
        // All predictors got the same pages.
        let dirty = outcomes[PHASE].dirty;
        let done = self.best.map_or(Outcome { dirty, ..Outcome::default() }, |best| outcomes[best]);
        if has_learnt {
            self.done.add(done, REMEMBERS);
        }
        if self.seen >= LEARNS {
            let counts = if has_learnt { 1.0 } else { LEARNING };
            let may_waste = self.may_waste + self.may_waste_of_dirty() * dirty as f64 - counts * done.wasted as f64;
            self.may_waste = may_waste.min(SAVED_UP * dirty as f64);
        }
        if has_learnt {
            self.best = self.choose();
        }
    }
}

impl Score {
    fn add(&mut self, Outcome { dirty, early, wasted }: Outcome, keeps: f64) {
        for (sum, pages) in [(&mut self.dirty, dirty), (&mut self.early, early), (&mut self.wasted, wasted)] {
            *sum = keeps * *sum + pages as f64;
        }
    }

    /// Savings minus waste, for each page that the program writes.
    fn gain(&self) -> f64 {
        (self.early - self.wasted) / self.dirty.max(1.0)
    }
}
