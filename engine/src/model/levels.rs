//! The best frequency of saving to each of several levels. A near level costs little and survives most failures. The
//! rarer failures that it does not survive are left to a farther level, which is saved less often.
//!
//! Failures come at random, at a rate of 1 / `mtbf`, and also while saving. After a failure, the job goes back to the
//! last checkpoint on the nearest level that survives it, or on a farther one, and repeats the work and the checkpoints
//! since. After a failure during a restart, the same restart begins again.

use super::young;
use crate::error::{Error, Result};
use std::{iter::zip, time::Duration};

/// The maximum number of levels.
pub const LEVELS_MAX: usize = 4;
/// Every level is saved at least once in this many checkpoints.
const EVERY_MAX: f64 = 100_000.0;

/// The cost of a level, and the failures that it survives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelCost {
    /// The time that the program waits, or is slowed down, for a checkpoint that goes there too.
    pub checkpoint: Duration,
    /// The time after that until the checkpoint counts there. Until then the level takes no other one, and a failure
    /// goes back to the one before.
    pub under_way: Duration,
    /// The time from a failure until the program goes on from this level.
    pub restart: Duration,
    /// The fraction of failures that the level survives: 0 to 1.
    pub survives: f64,
}

/// The frequency of saving to each level.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// The computing time between two checkpoints.
    pub interval: Duration,
    /// For each level, the number of checkpoints between saves to it: a multiple of the nearer levels' numbers. `None`:
    /// less is lost without the level.
    pub every: Vec<Option<u64>>,
    /// The fraction of the job's time for checkpoints, restarts and repeated work.
    pub lost: f64,
}

/// For each level, from the nearest on, the fraction of failures that it survives and no nearer one does.
pub fn left_to(levels: &[LevelCost]) -> Vec<f64> {
    let mut survived: f64 = 0.0;
    let left = |level: &LevelCost| {
        let more = (level.survives - survived).max(0.0);
        survived = survived.max(level.survives);
        more
    };
    levels.iter().map(left).collect()
}

/// The pattern that loses least, to first order: A. Benoit, A. Cavelan, V. Le Fèvre, Y. Robert, H. Sun, Towards Optimal
/// Multi-Level Checkpointing, IEEE Transactions on Computers 66(7), 2017. Let C be the cost of a level and λ the rate
/// of the failures left to it. The level is saved every sqrt(2 C / λ), which is Young's interval for these failures
/// alone. All intervals must be multiples of the nearest level's. Then Σ sqrt(2 λ C) of the time is lost. A level is
/// left out if that loses less, unless failures would be left to no level. For one level, the result is Young's.
///
/// `levels`: from the nearest on. `mtbf`: of the job. `InvalidArgument`: no level survives any failure, or a number is
/// out of range.
pub fn pattern(levels: &[LevelCost], mtbf: Duration) -> Result<Pattern> {
    check(levels, mtbf)?;
    let most = survived(levels.iter());
    let subsets =
        (1..1_u32 << levels.len()).map(|chosen| (0..levels.len()).filter(move |level| chosen >> level & 1 == 1));
    let best = subsets.filter_map(|used| {
        let used: Vec<usize> = used.collect();
        let among: Vec<LevelCost> = used.iter().map(|level| levels[*level]).collect();
        let best = if survived(among.iter()) < most { None } else { of_all(&among, mtbf) }?;
        let mut every = vec![None; levels.len()];
        zip(&used, best.every).for_each(|(level, one)| every[*level] = one);
        Some(Pattern { every, ..best })
    });
    let best = best.min_by(|one, other| one.lost.total_cmp(&other.lost));
    best.ok_or_else(|| Error::argument("levels", "none survives any failure"))
}

/// As [`pattern`], but no level is left out. `None`: no failures are left to one of them.
pub fn pattern_of_all(levels: &[LevelCost], mtbf: Duration) -> Result<Option<Pattern>> {
    check(levels, mtbf)?;
    Ok(of_all(levels, mtbf))
}

fn of_all(levels: &[LevelCost], mtbf: Duration) -> Option<Pattern> {
    if left_to(levels).contains(&0.0) {
        return None;
    }
    let patterns = rounded(levels, mtbf).into_iter().map(|every| {
        let interval = interval(levels, &every, mtbf);
        let lost = lost(levels, &every, interval, mtbf);
        Pattern { interval, every: every.into_iter().map(Some).collect(), lost }
    });
    patterns.min_by(|one, other| one.lost.total_cmp(&other.lost))
}

fn check(levels: &[LevelCost], mtbf: Duration) -> Result<()> {
    if levels.is_empty() || levels.len() > LEVELS_MAX {
        return Err(Error::argument("levels", format!("give 1 to {LEVELS_MAX}")));
    }
    if levels.iter().any(|level| !(0.0..=1.0).contains(&level.survives)) {
        return Err(Error::argument("survives", "it is a fraction of all failures, 0 to 100 %"));
    }
    if levels.iter().any(|level| level.checkpoint.is_zero()) {
        return Err(Error::argument("the cost of a checkpoint", "give more than 0"));
    }
    if mtbf.is_zero() {
        return Err(Error::argument("the mean time between failures", "give more than 0"));
    }
    Ok(())
}

fn survived<'a>(levels: impl Iterator<Item = &'a LevelCost>) -> f64 {
    levels.map(|level| level.survives).fold(0.0, f64::max)
}

/// The rate of the failures left to each level, per second.
fn rates(levels: &[LevelCost], mtbf: Duration) -> Vec<f64> {
    left_to(levels).into_iter().map(|share| share / mtbf.as_secs_f64()).collect()
}

/// For each level, the number of checkpoints between saves: the two multiples around the best value, for each choice of
/// the nearer level.
fn rounded(levels: &[LevelCost], mtbf: Duration) -> Vec<Vec<u64>> {
    let left = left_to(levels);
    let alone = |level: usize| {
        let best = young(levels[level].checkpoint, mtbf).as_secs_f64() / left[level].sqrt();
        best.max(levels[level].under_way.as_secs_f64())
    };
    let mut patterns = vec![vec![1]];
    for level in 1..levels.len() {
        let best = (alone(level) / alone(0)).clamp(1.0, EVERY_MAX);
        let mut longer = Vec::new();
        for pattern in patterns {
            let nearer = pattern[level - 1];
            let times = (best / nearer as f64).max(1.0);
            for times in [times.floor() as u64, times.ceil() as u64] {
                longer.push(pattern.iter().copied().chain([nearer * times]).collect());
            }
        }
        patterns = longer;
        patterns.dedup();
    }
    patterns
}

/// The computing time between two checkpoints, to first order, if each level is saved once in `every` checkpoints:
/// sqrt(2 Σ (C / every) / Σ (λ every)). It is longer if a level still has a checkpoint under way then.
fn interval(levels: &[LevelCost], every: &[u64], mtbf: Duration) -> Duration {
    let saving: f64 = zip(levels, every).map(|(level, every)| level.checkpoint.as_secs_f64() / *every as f64).sum();
    let again: f64 = zip(rates(levels, mtbf), every).map(|(rate, every)| rate * *every as f64).sum();
    let free = zip(levels, every).map(|(level, every)| level.under_way.as_secs_f64() / *every as f64);
    Duration::try_from_secs_f64(free.fold((2.0 * saving / again).sqrt(), f64::max)).unwrap_or(Duration::MAX)
}

/// The expected fraction of lost time, not only to first order. `every`: each a multiple of the one before.
///
/// The first pass over one part of the pattern, of length L, takes D = (e^ΛL − 1) · (1/Λ + Σ pᵢ (Rᵢ + Aᵢ)). Failures
/// come at a rate of Λ. A fraction pᵢ of them is left to level i; each costs its restart, which takes
/// Rᵢ = (e^Λr − 1) / Λ if it takes r without a failure, and repeats all parts Aᵢ since its last checkpoint. While that is under way, the one before counts: on average this repeats as much again as is
/// computed meanwhile.
fn lost(levels: &[LevelCost], every: &[u64], interval: Duration, mtbf: Duration) -> f64 {
    let rates = rates(levels, mtbf);
    let rate: f64 = rates.iter().sum();
    let parts = every.last().copied().unwrap_or(1);
    // The expected time from the beginning of the pattern to the end of each part.
    let mut reached = vec![0.0];
    for part in 0..parts {
        let saving: f64 = zip(levels, every)
            .filter(|(_, every)| (part + 1).is_multiple_of(**every))
            .map(|(level, _)| level.checkpoint.as_secs_f64())
            .sum();
        let now = reached[part as usize];
        let back = |every: u64| now - reached[(part - part % every) as usize];
        let failed: f64 = zip(zip(levels, every), &rates)
            .map(|((level, every), one)| {
                let restart = (rate * level.restart.as_secs_f64()).exp_m1() / rate;
                one / rate * (restart + level.under_way.as_secs_f64() + back(*every))
            })
            .sum();
        reached.push(now + (rate * (interval.as_secs_f64() + saving)).exp_m1() * (1.0 / rate + failed));
    }
    let whole = reached[parts as usize];
    1.0 - if whole.is_finite() { interval.as_secs_f64() * parts as f64 / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::daly;

    fn level(checkpoint: f64, restart: f64, survives: f64) -> LevelCost {
        LevelCost {
            checkpoint: Duration::from_secs_f64(checkpoint),
            under_way: Duration::ZERO,
            restart: Duration::from_secs_f64(restart),
            survives,
        }
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// A simulation with random failures, one by one.
    fn simulated(levels: &[LevelCost], every: &[u64], interval: f64, mtbf: f64, patterns: u64) -> f64 {
        let mut rng = fastrand::Rng::with_seed(7);
        let left = left_to(levels);
        let draw = |rng: &mut fastrand::Rng| -mtbf * (1.0 - rng.f64()).ln();
        let (mut time, mut part, mut fails_in) = (0.0, 0, draw(&mut rng));
        let parts = patterns * every.last().unwrap();
        while part < parts {
            let due = (0..levels.len()).filter(|level| (part + 1) % every[*level] == 0);
            let length = interval + due.map(|level| levels[level].checkpoint.as_secs_f64()).sum::<f64>();
            if fails_in >= length {
                (time, fails_in, part) = (time + length, fails_in - length, part + 1);
                continue;
            }
            time += fails_in;
            fails_in = draw(&mut rng);
            let mut which = rng.f64();
            let hit = left
                .iter()
                .position(|share| {
                    which -= share;
                    which < 0.0
                })
                .unwrap_or(levels.len() - 1);
            let restart = levels[hit].restart.as_secs_f64();
            while fails_in < restart {
                time += fails_in;
                fails_in = draw(&mut rng);
            }
            (time, fails_in) = (time + restart, fails_in - restart);
            part -= part % every[hit];
        }
        1.0 - interval * parts as f64 / time
    }

    #[test]
    fn what_is_lost_is_what_a_simulation_loses() {
        let three = [level(1.0, 5.0, 0.7), level(10.0, 30.0, 0.95), level(60.0, 120.0, 1.0)];
        let cases: [(&[LevelCost], &[u64], f64, f64); 5] = [
            (&three[2..], &[1], 600.0, 3600.0),
            (&three[1..], &[1, 4], 200.0, 3600.0),
            (&three, &[1, 5, 20], 100.0, 3600.0),
            (&three, &[1, 1, 6], 300.0, 1000.0),
            (&three, &[2, 4, 8], 20.0, 20_000.0),
        ];
        for (levels, every, interval, mtbf) in cases {
            let expected = lost(levels, every, seconds(interval), seconds(mtbf));
            let patterns = 200_000 / every.last().unwrap();
            let simulated = simulated(levels, every, interval, mtbf, patterns);
            assert!((simulated / expected - 1.0).abs() < 0.03, "{every:?}: {expected} expected, {simulated}");
        }
    }

    /// Daly 2006, equation 20, and Young's interval.
    #[test]
    fn one_level_is_the_old_theory() {
        for (cost, mtbf) in [(0.1, 86_400.0), (5.0, 3600.0), (60.0, 3600.0_f64)] {
            let found = pattern(&[level(cost, 0.0, 1.0)], seconds(mtbf)).unwrap();
            assert_eq!(found.every, [Some(1)]);
            assert!(found.interval.abs_diff(young(seconds(cost), seconds(mtbf))) < Duration::from_nanos(10));
            let work = found.interval.as_secs_f64();
            let slower = mtbf * ((work + cost) / mtbf).exp_m1() / work;
            assert!((found.lost - (1.0 - 1.0 / slower)).abs() < 1e-12);
            let by_daly = daly(seconds(cost), seconds(mtbf));
            assert!(lost(&[level(cost, 0.0, 1.0)], &[1], by_daly, seconds(mtbf)) <= found.lost + 1e-9);
        }
    }

    /// The published first-order loss is Σ sqrt(2 λ C); and no other pattern loses much less.
    #[test]
    fn no_other_pattern_loses_much_less() {
        let levels = [level(0.5, 0.0, 0.8), level(4.0, 0.0, 0.97), level(40.0, 0.0, 1.0)];
        let mtbf = seconds(20_000.0);
        let found = pattern(&levels, mtbf).unwrap();
        let published: f64 =
            zip(&levels, rates(&levels, mtbf)).map(|(l, r)| (2.0 * r * l.checkpoint.as_secs_f64()).sqrt()).sum();
        assert!((found.lost / published - 1.0).abs() < 0.05, "{} and {published}", found.lost);
        let mut least = f64::INFINITY;
        for step in 1..60 {
            for second in 1..16 {
                for third in 1..10 {
                    let every = [1, second, second * third];
                    least = least.min(lost(&levels, &every, seconds(f64::from(step) * 10.0), mtbf));
                }
            }
        }
        assert!(found.lost < least * 1.02, "{found:?}, and {least}");
        let several = found.every.iter().flatten().copied().collect::<Vec<u64>>();
        assert!(several.windows(2).all(|two| two[1].is_multiple_of(two[0])), "{several:?}");
    }

    #[test]
    fn a_checkpoint_under_way_delays_the_next_and_does_not_count() {
        let with = |under_way| LevelCost { under_way: seconds(under_way), ..level(0.5, 0.0, 1.0) };
        let of = |under_way| pattern_of_all(&[with(under_way)], seconds(20_000.0)).unwrap().unwrap();
        let (at_once, later, much_later) = (of(0.0), of(100.0), of(300.0));
        assert_eq!((later.interval, much_later.interval), (at_once.interval, seconds(300.0)));
        assert!(((later.lost - at_once.lost) / (100.0 / 20_000.0) - 1.0).abs() < 0.02, "{later:?}, {at_once:?}");
        let second = LevelCost { under_way: seconds(5000.0), ..level(1e-3, 0.0, 1.0) };
        let two = pattern_of_all(&[level(0.5, 0.0, 0.9), second], seconds(20_000.0)).unwrap().unwrap();
        assert!(two.interval.as_secs_f64() * two.every[1].unwrap() as f64 > 4999.0, "{two:?}");
        assert!(pattern_of_all(&[with(0.0), with(0.0)], seconds(20_000.0)).unwrap().is_none());
    }

    #[test]
    fn a_level_that_gains_nothing_is_left_out() {
        let every = |levels: &[LevelCost]| pattern(levels, seconds(3600.0)).unwrap().every;
        // It costs as much as the one behind it.
        assert_eq!(every(&[level(10.0, 1.0, 0.5), level(10.0, 1.0, 1.0)]), [None, Some(1)]);
        // It survives no failure that a nearer one does not.
        assert_eq!(every(&[level(1.0, 1.0, 0.9), level(2.0, 1.0, 0.9)]), [Some(1), None]);
        assert!(matches!(every(&[level(0.1, 1.0, 0.9), level(50.0, 60.0, 1.0)])[..], [Some(1), Some(2..)]));
    }

    #[test]
    fn the_extremes_are_defined() {
        let refused = |levels: &[LevelCost], mtbf, words: &str| {
            let text = pattern(levels, seconds(mtbf)).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        };
        refused(&[], 1.0, "1 to 4");
        refused(&[level(1.0, 0.0, 1.0); 5], 1.0, "1 to 4");
        refused(&[level(1.0, 0.0, 0.0)], 1.0, "none survives");
        refused(&[level(1.0, 0.0, 1.5)], 1.0, "0 to 100 %");
        refused(&[level(1.0, 0.0, f64::NAN)], 1.0, "0 to 100 %");
        refused(&[level(0.0, 0.0, 1.0)], 1.0, "more than 0");
        refused(&[level(1.0, 0.0, 1.0)], 0.0, "mean time");
        let hopeless = pattern(&[level(1e9, 0.0, 1.0)], seconds(1.0)).unwrap();
        assert_eq!(hopeless.lost, 1.0);
        let rare = pattern(&[level(1e-9, 0.0, 0.5), level(1e6, 0.0, 1.0)], seconds(1e9)).unwrap();
        assert!(rare.lost < 0.1 && rare.every[1] <= Some(100_000), "{rare:?}");
    }
}
