//! When a rank may save early: the ranks take turns, so that they do not all meet at the server (paper 004, section 4.3,
//! which proposes it). All count from the same moment, the end of the all-reduce at t1, so that their clocks need not agree.

use crate::ground::Instant;
use std::time::Duration;

/// So many groups of ranks take turns.
const GROUPS: u32 = 4;
const TURN: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    group: u32,
    groups: u32,
    begun: Instant,
}

impl Turns {
    /// Those of `rank` among so many `ranks`; always its own if not `staggered`.
    pub(super) fn new(rank: usize, ranks: usize, staggered: bool) -> Turns {
        let groups = if staggered { u32::try_from(ranks).unwrap_or(GROUPS).clamp(1, GROUPS) } else { 1 };
        Turns { group: (rank % groups as usize) as u32, groups, begun: Instant::now() }
    }

    /// All ranks meet now.
    pub(super) fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// How long this rank has to wait for its turn.
    pub(super) fn wait(&self) -> Duration {
        self.wait_at(self.begun.elapsed())
    }

    fn wait_at(&self, since: Duration) -> Duration {
        let round = TURN.as_micros() as u64 * u64::from(self.groups);
        let at = since.as_micros() as u64 % round;
        let (from, to) =
            (TURN.as_micros() as u64 * u64::from(self.group), TURN.as_micros() as u64 * u64::from(self.group + 1));
        match at {
            at if at < from => Duration::from_micros(from - at),
            at if at < to => Duration::ZERO,
            at => Duration::from_micros(round - at + from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_group_at_a_time() {
        for ranks in [1, 2, 3, 16] {
            let all: Vec<Turns> = (0..ranks).map(|rank| Turns::new(rank, ranks, true)).collect();
            for at in (0..1000).map(Duration::from_millis) {
                let may = all.iter().filter(|turns| turns.wait_at(at).is_zero()).count();
                assert!((1..=ranks.div_ceil(GROUPS as usize)).contains(&may), "{ranks} ranks at {at:?}: {may}");
                for turns in &all {
                    let wait = turns.wait_at(at);
                    assert!(turns.wait_at(at + wait).is_zero() && wait < TURN * GROUPS, "{ranks} ranks at {at:?}");
                }
            }
        }
        let apart = Turns::new(3, 16, false);
        assert!((0..1000).all(|at| apart.wait_at(Duration::from_millis(at)).is_zero()));
    }
}
