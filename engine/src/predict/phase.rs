//! A page counts as settled at the point of the interval at which it was last written in the interval before. Points
//! are counted from the last mark that the program has set, because the times of iterations add up to an unreliable
//! sum. All iterations write alike, so each shows at which point a page is written last.
//!
//! If an interval ends inside an iteration, the last write before that point counts for that iteration.

use super::{
    positions::Positions,
    predictor::{Page, PerPage, Predictor, Tick},
};

const NEVER: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Phase {
    /// Marks since the last checkpoint.
    iteration: u32,
    begun_us: Option<u64>,
    /// Time from the last mark to the last tick.
    position_us: u32,
    pages: PerPage<Seen>,
    /// Pages written in this interval and not settled.
    open: Vec<Page>,
    whole: Positions,
    /// The part up to the end of the last interval, if that was inside an iteration.
    part: Positions,
    cut: Option<Cut>,
    has_learnt: bool,
    interval: u32,
}

#[derive(Debug, Clone, Copy)]
struct Cut {
    iteration: u32,
    position_us: u32,
}

#[derive(Debug)]
struct Seen {
    interval: u32,
    /// The iteration of the last write in this interval, and in the one before.
    last: u32,
    before: u32,
    is_open: bool,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { interval: NEVER, last: NEVER, before: NEVER, is_open: false }
    }
}

impl Phase {
    fn note(&mut self, page: Page, until_us: u32) {
        let seen = self.pages.at(page);
        if seen.interval != self.interval {
            let before = if seen.interval.wrapping_add(1) == self.interval { seen.last } else { NEVER };
            *seen = Seen { interval: self.interval, last: NEVER, before, is_open: false };
        }
        seen.last = self.iteration;
        if !std::mem::replace(&mut seen.is_open, true) {
            self.open.push(page);
        }
        self.whole.note(page, self.position_us, until_us);
        if self.cut.is_some_and(|cut| until_us <= cut.position_us) {
            self.part.note(page, self.position_us, until_us);
        }
    }

    fn begin_iteration(&mut self, at_us: u64) {
        self.whole.learn();
        self.part.learn();
        self.begun_us = Some(at_us);
        self.position_us = 0;
    }

    fn is_settled(&mut self, page: Page) -> bool {
        let seen = self.pages.at(page);
        let (last, before) = (seen.last, seen.before);
        if before == NEVER || before > self.iteration {
            return false;
        }
        if before < self.iteration {
            return true;
        }
        let in_part = self.cut.is_some_and(|cut| cut.iteration == before);
        let positions = if in_part { &mut self.part } else { &mut self.whole };
        last == before && positions.settled_us(page) <= self.position_us
    }
}

impl Predictor for Phase {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        let is_first = self.begun_us.is_none();
        let begun = *self.begun_us.get_or_insert(tick.at_us);
        let until = u32::try_from(tick.at_us.saturating_sub(begun)).unwrap_or(NEVER - 1);
        tick.written.iter().for_each(|page| self.note(*page, until));
        self.position_us = until;
        if tick.is_mark {
            self.begin_iteration(tick.at_us);
            self.iteration += u32::from(!is_first);
        }
        if !self.has_learnt {
            return;
        }
        let mut open = std::mem::take(&mut self.open);
        open.retain(|page| {
            let is_settled = self.is_settled(*page);
            if is_settled {
                settled.push(*page);
                self.pages.at(*page).is_open = false;
            }
            !is_settled
        });
        self.open = open;
    }

    fn checkpoint(&mut self) {
        let is_inside = self.position_us > 0;
        if is_inside && self.iteration == 0 {
            // Without a mark, the interval itself repeats.
            let at = self.begun_us.map(|begun| begun + u64::from(self.position_us));
            self.begin_iteration(at.unwrap_or_default());
            self.cut = None;
        } else {
            self.cut = is_inside.then_some(Cut { iteration: self.iteration, position_us: self.position_us });
            if is_inside {
                self.part.learn_from(&mut self.whole);
            }
        }
        for page in self.open.drain(..) {
            self.pages.at(page).is_open = false;
        }
        (self.iteration, self.has_learnt) = (0, true);
        self.interval += 1;
    }
}
