//! The turns in which ranks may save early, because not all of them should write to the server at once. Paper 004,
//! section 4.3, proposes them.
//!
//! All ranks count from the same moment, the end of the all-reduce at t1, so their clocks need not agree. All turns
//! have the same length: a few batches of the slowest rank, because the last batch of a turn reaches into the next.

use crate::ground::Instant;
use std::time::Duration;

/// Groups of ranks that take turns.
const GROUPS: u32 = 4;
/// Batches in a turn.
const BATCHES: u32 = 4;
/// A shorter turn ends before a thread has woken up. Long turns leave none for pages that are soon written again.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);
/// The turn before the time of a batch is known.
const FIRST: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    group: u32,
    groups: u32,
    begun: Instant,
    turn: Duration,
    /// Batches written since `begun`, and their total time.
    batches: u32,
    took: Duration,
}

impl Turns {
    /// The turns of `rank` among `ranks`. Unless `staggered`, every moment belongs to it.
    pub(super) fn new(rank: usize, ranks: usize, staggered: bool) -> Turns {
        let groups = if staggered { u32::try_from(ranks).unwrap_or(GROUPS).clamp(1, GROUPS) } else { 1 };
        let group = (rank % groups as usize) as u32;
        Turns { group, groups, begun: Instant::now(), turn: FIRST, batches: 0, took: Duration::ZERO }
    }

    /// Starts the turns when all ranks meet. On the slowest rank a batch takes `batch_us`; 0: no rank has written any.
    pub(super) fn begin(&mut self, batch_us: u64) {
        let fits = Duration::from_micros(batch_us).saturating_mul(BATCHES).clamp(SHORTEST, LONGEST);
        let turn = if batch_us == 0 { FIRST } else { fits };
        *self = Turns { begun: Instant::now(), turn, batches: 0, took: Duration::ZERO, ..*self };
    }

    /// Notes the time of a batch.
    pub(super) fn took(&mut self, took: Duration) {
        (self.batches, self.took) = (self.batches + 1, self.took + took);
    }

    /// The average time of a batch since all ranks last met, in microseconds; 0: none was written.
    pub(super) fn batch_us(&self) -> u64 {
        self.took.checked_div(self.batches).map_or(0, |each| each.as_micros().max(1) as u64)
    }

    /// The time until this rank's turn.
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
