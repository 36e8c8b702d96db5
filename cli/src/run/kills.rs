//! The moments at which a job is killed: after some checkpoints and a random delay.

use super::report::Report;
use crate::random::Random;
use std::time::{Duration, Instant};

/// A job that saves nothing is killed within this share of its time.
const LATEST: f64 = 0.8;

/// The undisturbed run, as a basis for the kills.
pub struct Calm {
    pub took: Duration,
    /// Number of checkpoints that rank 0 reported.
    pub checkpoints: u64,
}

/// A moment within a start of the job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// After this many checkpoints of this start.
    pub checkpoints: u64,
    /// And this long after the last of them, or after the start if there is none.
    pub delay: Duration,
}

impl Calm {
    /// Draws the moment of one of `kills` kills, after `done` checkpoints that the job does not repeat. All kills
    /// together use up fewer checkpoints than the job takes, so none is too late.
    pub fn draw(&self, random: &mut Random, kills: u32, done: u64) -> Moment {
        let left = self.checkpoints.saturating_sub(done);
        let each = (self.checkpoints / (u64::from(kills) + 1)).max(1);
        // Within the time between two checkpoints, so any phase of saving and computing may be hit.
        let apart = self.took.div_f64((self.checkpoints + 1) as f64);
        match left {
            0 if self.checkpoints == 0 => {
                let delay = self.took.mul_f64(LATEST * random.share());
                Moment { checkpoints: 0, delay }
            }
            0 => Moment { checkpoints: 0, delay: apart.mul_f64(random.share()) },
            _ => Moment { checkpoints: 1 + random.below(each.min(left)), delay: apart.mul_f64(random.share()) },
        }
    }
}

/// The state of a watch over one start of the job.
pub struct Killing {
    /// Its reports were read up to here.
    mark: u64,
    moment: Option<Moment>,
    since: Instant,
    pub checkpoints: u64,
    /// After this the job has taken too long.
    limit: Option<Instant>,
    pub killed: Option<Killed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    AsDrawn,
    TookTooLong,
}

impl Killing {
    pub fn begin(report: &Report, moment: Option<Moment>, limit: Duration) -> Killing {
        let since = Instant::now();
        let limit = since.checked_add(limit);
        Killing { mark: report.mark(), moment, since, checkpoints: 0, limit, killed: None }
    }

    /// Should the job be killed now? Returns true once.
    pub fn is_due(&mut self, report: &Report) -> bool {
        if self.killed.is_some() {
            return false;
        }
        self.look(report);
        let is_over = self.limit.is_some_and(|limit| Instant::now() >= limit);
        let is_drawn = self
            .moment
            .is_some_and(|moment| self.checkpoints >= moment.checkpoints && self.since.elapsed() >= moment.delay);
        self.killed = match (is_over, is_drawn) {
            (true, _) => Some(Killed::TookTooLong),
            (_, true) => Some(Killed::AsDrawn),
            _ => None,
        };
        self.killed.is_some()
    }

    /// Counts the checkpoints since the last look. The delay counts from the awaited one.
    pub fn look(&mut self, report: &Report) {
        let end = report.mark();
        let told = report.told_between(self.mark, end);
        self.mark = end;
        let new: u64 = told.checkpoints.values().map(|taken| taken.len() as u64).sum();
        let wanted = self.moment.map_or(0, |moment| moment.checkpoints);
        if self.checkpoints < wanted && self.checkpoints + new >= wanted {
            self.since = Instant::now();
        }
        self.checkpoints += new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kills_come_before_the_end_and_a_seed_repeats_them() {
        let calm = Calm { took: Duration::from_secs(10), checkpoints: 20 };
        for seed in 0..200 {
            let draw = || {
                let (mut random, mut done, mut moments) = (Random::new(seed), 0, Vec::new());
                for _ in 0..4 {
                    moments.push(calm.draw(&mut random, 4, done));
                    done += moments.last().map_or(0, |moment| moment.checkpoints);
                }
                (moments, done)
            };
            let (moments, done) = draw();
            assert!(moments.iter().all(|moment| moment.checkpoints >= 1) && done < 20, "{moments:?}");
            assert_eq!((moments, done), draw());
        }
        // A job that saves nothing, and a job that has taken all its checkpoints.
        for (checkpoints, done) in [(0, 0), (3, 3)] {
            let calm = Calm { took: Duration::from_secs(10), checkpoints };
            let moment = calm.draw(&mut Random::new(7), 3, done);
            assert!(moment.checkpoints == 0 && moment.delay < calm.took, "{moment:?}");
        }
    }
}
