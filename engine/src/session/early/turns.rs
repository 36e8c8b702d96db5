//! When a rank may save early: the ranks take turns, so that they do not all meet at the server (paper 004, section 4.3,
//! which proposes it). All count from the same moment, the end of the all-reduce at t1, so that their clocks need not agree,
//! and have turns of the same length: a few batches of the slowest, as the last one that a turn begins reaches into the next.

use crate::ground::Instant;
use std::time::Duration;

/// So many groups of ranks take turns.
const GROUPS: u32 = 4;
/// What fits into a turn.
const BATCHES: u32 = 4;
/// Shorter ones pass before a thread has woken up. Long ones leave no turn to pages that are written again soon.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);
/// Where nobody knows yet how long a batch takes.
const FIRST: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    group: u32,
    groups: u32,
    begun: Instant,
    turn: Duration,
    /// Batches that were written since, and how long they took together.
    batches: u32,
    took: Duration,
}

impl Turns {
    /// Those of `rank` among so many `ranks`; always its own if not `staggered`.
    pub(super) fn new(rank: usize, ranks: usize, staggered: bool) -> Turns {
        let groups = if staggered { u32::try_from(ranks).unwrap_or(GROUPS).clamp(1, GROUPS) } else { 1 };
        let group = (rank % groups as usize) as u32;
        Turns { group, groups, begun: Instant::now(), turn: FIRST, batches: 0, took: Duration::ZERO }
    }

    /// All ranks meet now, on the slowest of which a batch takes `batch_us`; 0: nobody has written any.
    pub(super) fn begin(&mut self, batch_us: u64) {
        let fits = Duration::from_micros(batch_us).saturating_mul(BATCHES).clamp(SHORTEST, LONGEST);
        let turn = if batch_us == 0 { FIRST } else { fits };
        *self = Turns { begun: Instant::now(), turn, batches: 0, took: Duration::ZERO, ..*self };
    }

    /// This rank has written a batch.
    pub(super) fn took(&mut self, took: Duration) {
        (self.batches, self.took) = (self.batches + 1, self.took + took);
    }

    /// How long a batch has taken since all ranks met last, on average; 0: none was written.
    pub(super) fn batch_us(&self) -> u64 {
        self.took.checked_div(self.batches).map_or(0, |each| each.as_micros().max(1) as u64)
    }

    /// How long this rank has to wait for its turn.
    pub(super) fn wait(&self) -> Duration {
        self.wait_at(self.begun.elapsed())
    }

    fn wait_at(&self, since: Duration) -> Duration {
        let turn = self.turn.as_micros() as u64;
        let (round, from) = (turn * u64::from(self.groups), turn * u64::from(self.group));
        match since.as_micros() as u64 % round {
            at if at < from => Duration::from_micros(from - at),
            at if at < from + turn => Duration::ZERO,
            at => Duration::from_micros(round - at + from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_group_at_a_time() {
        for (ranks, batch_us) in [(1, 0), (2, 0), (3, 1), (16, 0), (16, 1), (16, 3000), (16, u64::MAX)] {
            let mut all: Vec<Turns> = (0..ranks).map(|rank| Turns::new(rank, ranks, true)).collect();
            all.iter_mut().for_each(|turns| turns.begin(batch_us));
            for at in (0..1000).map(Duration::from_millis) {
                let may = all.iter().filter(|turns| turns.wait_at(at).is_zero()).count();
                assert!((1..=ranks.div_ceil(GROUPS as usize)).contains(&may), "{ranks} ranks at {at:?}: {may}");
                for turns in &all {
                    let wait = turns.wait_at(at);
                    assert!(turns.wait_at(at + wait).is_zero() && wait < LONGEST * GROUPS, "{ranks} ranks at {at:?}");
                }
            }
        }
        let apart = Turns::new(3, 16, false);
        assert!((0..1000).all(|at| apart.wait_at(Duration::from_millis(at)).is_zero()));
    }

    #[test]
    fn a_turn_is_as_long_as_the_slowest_batches_ask_for() {
        let mut turns = Turns::new(1, 2, true);
        assert_eq!(turns.batch_us(), 0);
        [5, 7].map(Duration::from_millis).into_iter().for_each(|each| turns.took(each));
        assert_eq!(turns.batch_us(), 6000);
        turns.begin(8000);
        assert_eq!((turns.wait_at(Duration::ZERO), turns.batch_us()), (Duration::from_millis(32), 0));
    }
}
