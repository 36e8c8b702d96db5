//! Keeps score of the other predictors, as if each had saved pages, and does as the best of them; does nothing where none
//! saves more than it wastes.

use super::{
    count::Count,
    early::{EarlyTally, Outcome},
    idle::Idle,
    infrequent::Infrequent,
    phase::Phase,
    predictor::{Page, Predictor, Tick},
};

/// Of a score, what an interval more leaves of it: programs go from phase to phase.
const KEEPS: f64 = 0.5;
/// Extra writes for each page that the program writes, at most.
const WASTE_MAX: f64 = 0.2;
/// Scores of fewer intervals say little; the one that predicts only what it has seen several times is taken meanwhile.
const FEW: u64 = 4;
const PHASE: usize = 0;

pub(super) struct Auto {
    tried: Vec<Tried>,
    best: Option<usize>,
    /// Intervals.
    scored: u64,
}

struct Tried {
    predictor: Box<dyn Predictor>,
    early: EarlyTally,
    settled: Vec<Page>,
    score: Score,
}

/// Pages of the intervals before; the last counts most.
#[derive(Debug, Default)]
struct Score {
    dirty: f64,
    early: f64,
    wasted: f64,
}

impl Auto {
    pub(super) fn new() -> Auto {
        let others: [Box<dyn Predictor>; 4] =
            [Box::<Phase>::default(), Box::<Count>::default(), Box::<Infrequent>::default(), Box::<Idle>::default()];
        let tried = others.into_iter().map(|predictor| Tried {
            predictor,
            early: EarlyTally::default(),
            settled: Vec::new(),
            score: Score::default(),
        });
        Auto { tried: tried.collect(), best: None, scored: 0 }
    }
}

impl Predictor for Auto {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        for Tried { predictor, early, settled, .. } in &mut self.tried {
            early.save(tick.capacity);
            early.written(tick.written);
            settled.clear();
            predictor.tick(tick, settled);
            early.settled(settled);
        }
        settled.extend(self.best.iter().flat_map(|best| &self.tried[*best].settled));
    }

    fn checkpoint(&mut self) {
        for Tried { predictor, early, score, .. } in &mut self.tried {
            score.add(early.end());
            predictor.checkpoint();
        }
        let gains = self.tried.iter().map(|tried| tried.score.gain()).enumerate();
        let fit = gains.filter(|(_, gain)| *gain > 0.0).max_by(|one, other| one.1.total_cmp(&other.1));
        self.scored += 1;
        self.best = if self.scored < FEW { Some(PHASE) } else { fit.map(|(index, _)| index) };
    }
}

impl Score {
    fn add(&mut self, Outcome { dirty, early, wasted }: Outcome) {
        for (sum, pages) in [(&mut self.dirty, dirty), (&mut self.early, early), (&mut self.wasted, wasted)] {
            *sum = KEEPS * *sum + pages as f64;
        }
    }

    /// What it saves beside what it wastes, for each page that the program writes; below 0 where more is wasted than may be.
    fn gain(&self) -> f64 {
        let is_allowed = self.wasted <= WASTE_MAX * self.dirty;
        if is_allowed { (self.early - self.wasted) / self.dirty.max(1.0) } else { -1.0 }
    }
}
