//! The levels, copies and intervals with which a job loses least, by formula: each combination of levels gets its best
//! pattern.
//!
//! Three kinds of failures come at random. Processes die, and all levels stay. A node is lost with its memory and its
//! disk: a level stays if another copy is left of each shard. All nodes fail at once, and only disks and the space stay.
//! After a failure that no level survives, the job begins again.

use super::{
    LevelCost, Pattern,
    machine::{Job, LevelCopies},
    pattern_of_all,
    reliability::last_copy_lost,
};
use crate::{error::Result, space::LevelKind};
use std::{cmp::Reverse, time::Duration};

/// Numbers of copies to choose from.
const MEMORY_COPIES_MAX: u64 = 3;
const DISK_COPIES_MAX: u64 = 2;

/// Efficiencies that differ by less are alike.
const ALIKE: f64 = 1e-4;

/// Levels with their pattern, and the share of the machine that computes then.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The nearest first.
    pub levels: Vec<LevelCopies>,
    /// Has a number for each level.
    pub pattern: Pattern,
    /// The share of failures that each level survives and no nearer one does.
    pub left: Vec<f64>,
    /// The useful share of the time: without checkpoints, restarts, slower and repeated work.
    pub efficiency: f64,
}

impl Choice {
    /// The share of failures after which the job begins again.
    pub fn unsurvived(&self) -> f64 {
        (1.0 - self.left.iter().sum::<f64>()).max(0.0)
    }
}

/// All combinations of levels, the best first; of those that are alike, the one with fewer levels and copies. No level has
/// more copies than the job has nodes, and each is left some failures. `run`: the computing time of the job.
/// `InvalidArgument`: failures come without any pause.
pub fn choices(job: &Job, run: Duration) -> Result<Vec<Choice>> {
    let mut choices = Vec::new();
    for levels in combinations(job.nodes()) {
        choices.extend(choice(job, levels, run)?);
    }
    let simpler = |choice: &Choice| (choice.levels.len(), choice.levels.iter().map(|on| on.copies).sum::<u64>());
    let best = |choice: &Choice| Reverse((choice.efficiency / ALIKE).round() as u64);
    choices.sort_by_key(|choice| (best(choice), simpler(choice)));
    Ok(choices)
}

/// Every level on its own, with each number of copies that fits on `nodes`.
pub fn levels_on(nodes: u64) -> impl Iterator<Item = LevelCopies> {
    let with = |level, most: u64| (1..=most).map(move |copies| LevelCopies { level, copies });
    with(LevelKind::Memory, nodes.min(MEMORY_COPIES_MAX))
        .chain(with(LevelKind::Disk, nodes.min(DISK_COPIES_MAX)))
        .chain(with(LevelKind::Pfs, 1))
}

fn combinations(nodes: u64) -> Vec<Vec<LevelCopies>> {
    let mut all = vec![Vec::new()];
    for one in levels_on(nodes) {
        let others =
            all.iter().filter(|levels: &&Vec<LevelCopies>| levels.iter().all(|other| other.level != one.level));
        let more: Vec<_> = others.map(|levels| levels.iter().copied().chain([one]).collect()).collect();
        all.extend(more);
    }
    all.retain(|levels| !levels.is_empty());
    all
}

fn choice(job: &Job, levels: Vec<LevelCopies>, run: Duration) -> Result<Option<Choice>> {
    let failures = job.failures();
    let costs = costs(job, &levels);
    let Some(pattern) = pattern_of_all(&costs, seconds(1.0 / failures))? else { return Ok(None) };
    let left = super::left_to(&costs);
    let begins_again = failures * (1.0 - left.iter().sum::<f64>()).max(0.0);
    let goes_on = 1.0 - pattern.lost;
    let efficiency = goes_on * share_of_last_run(job, run.as_secs_f64() / goes_on, begins_again);
    // Without any progress it is not a number.
    Ok(Some(Choice { levels, pattern, left, efficiency: efficiency.max(0.0) }))
}

/// The share of a job's time that its last run takes, of length `run`. Failures after which it begins again come at a
/// rate of `rate`, also in a run that is nearly done: the whole takes (e^(rate·run) − 1) (1/rate + restart), as in Daly's
/// equation 20.
fn share_of_last_run(job: &Job, run: f64, rate: f64) -> f64 {
    if rate == 0.0 { 1.0 } else { run / ((rate * run).exp_m1() * (1.0 / rate + job.restart(None))) }
}

fn costs(job: &Job, levels: &[LevelCopies]) -> Vec<LevelCost> {
    let mut lost: f64 = 1.0;
    let mut outages: f64 = 0.0;
    let cost = |(nearer, on): (usize, &LevelCopies)| {
        // After it was lost, the level is empty until the restored data is there again.
        let empty = |from: Option<&LevelCopies>| job.restart(from.copied()) + job.under_way(*on);
        let found_empty = match on.level {
            LevelKind::Memory => job.outages() * empty(levels.get(nearer + 1)),
            _ => 0.0,
        };
        lost = lost.min(share_of_losses(job, *on) + found_empty);
        outages = match on.level {
            LevelKind::Memory => 0.0,
            LevelKind::Disk if on.copies == 1 => {
                job.outages() * (1.0 - job.node_losses() * empty(levels.first())).max(0.0)
            }
            _ => job.outages(),
        };
        let survived = job.process_failures() + (1.0 - lost) * job.node_losses() + outages;
        let under_way = job.under_way(*on);
        let waits = if nearer == 0 { job.perceived() } else { 0.0 };
        LevelCost {
            // A nanosecond stands for a checkpoint that costs nothing.
            checkpoint: seconds(waits + job.machine.slowdown * under_way).max(Duration::from_nanos(1)),
            under_way: seconds(under_way),
            restart: seconds(job.restart(Some(*on))),
            survives: (survived / job.failures()).min(1.0),
        }
    };
    levels.iter().enumerate().map(cost).collect()
}

/// The share of node losses that this level does not survive.
fn share_of_losses(job: &Job, on: LevelCopies) -> f64 {
    let Job { machine, .. } = job;
    let node_mtbf = machine.node_mtbf.as_secs_f64() / (1.0 - machine.processes).max(f64::MIN_POSITIVE);
    match on.level {
        LevelKind::Pfs => 0.0,
        _ => {
            let exposed = seconds(job.exposed(on));
            last_copy_lost(job.nodes(), machine.ranks_per_node, on.copies, seconds(node_mtbf), exposed)
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::machine::{
        Machine,
        tests::{DAY, HOUR, MACHINE, on},
    };
    use std::iter::zip;

    fn of(machine: Machine, ranks: u64) -> Vec<Choice> {
        choices(&Job { machine, ranks }, 30 * DAY).unwrap()
    }

    #[test]
    fn failures_are_left_to_the_nearest_level_that_survives_them() {
        let job = Job { machine: MACHINE, ranks: 1000 };
        let [processes, node, outage] =
            [job.process_failures(), job.node_losses(), job.outages()].map(|one| one / job.failures());
        let (memory, copied) = (on(LevelKind::Memory, 1), on(LevelKind::Memory, 2));
        let (disk, space) = (on(LevelKind::Disk, 1), on(LevelKind::Pfs, 1));
        let all = of(MACHINE, 1000);
        for (levels, expected) in [
            (vec![memory, space], vec![processes, node + outage]),
            (vec![memory, disk, space], vec![processes, outage, node]),
            (vec![copied, space], vec![processes + node, outage]),
            (vec![copied, disk], vec![processes + node, outage]),
            (vec![copied], vec![processes + node]),
        ] {
            let choice = all.iter().find(|choice| choice.levels == levels).unwrap();
            let near = zip(&choice.left, &expected).all(|(left, expected)| (left - expected).abs() < 1e-4);
            assert!(near && choice.left.len() == levels.len(), "{choice:?}, {expected:?}");
        }
        assert_eq!(all.len(), 23);
        assert!(all.is_sorted_by(|one, other| one.efficiency > other.efficiency - ALIKE));
        // A memory level would lose as little.
        assert_eq!(all[0].levels, [space]);
    }

    #[test]
    fn a_level_without_failures_of_its_own_is_in_no_choice() {
        let all = of(Machine { outage_mtbf: None, ..MACHINE }, 1000);
        assert!(
            all.iter().all(|choice| choice.levels != [on(LevelKind::Memory, 1), on(LevelKind::Disk, 1)]),
            "{all:?}"
        );
        // One node holds no copies of another, and two hold no third.
        let most = |ranks| of(MACHINE, ranks).iter().flat_map(|choice| &choice.levels).map(|on| on.copies).max();
        assert_eq!([100, 200, 300].map(most), [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn larger_machines_need_nearer_levels() {
        let small = &of(MACHINE, 1000)[0];
        let large = &of(MACHINE, 1_000_000)[0];
        assert_eq!(large.levels[0], on(LevelKind::Memory, 2), "{large:?}");
        assert!(small.efficiency > 0.99 && large.efficiency > 0.95 && large.efficiency < small.efficiency);
        let space = of(MACHINE, 1_000_000).into_iter().find(|choice| choice.levels == [on(LevelKind::Pfs, 1)]).unwrap();
        assert!(space.efficiency < 0.8, "{space:?}");
    }

    /// A checkpoint that costs nothing would be taken always. But the level takes only one at a time.
    #[test]
    fn no_level_is_saved_to_while_it_is_busy() {
        let job = Job { machine: Machine { slowdown: 0.0, ..MACHINE }, ranks: 1_000_000 };
        for choice in choices(&job, 30 * DAY).unwrap() {
            for (on, every) in zip(&choice.levels, &choice.pattern.every) {
                let period = choice.pattern.interval.as_secs_f64() * every.unwrap() as f64;
                assert!(period > job.under_way(*on) - 1e-6, "{choice:?}");
            }
        }
    }

    #[test]
    fn a_job_without_a_last_level_begins_again() {
        let job = Job { machine: Machine { relaunch: Duration::ZERO, open_operations: 0.0, ..MACHINE }, ranks: 1 };
        assert_eq!(share_of_last_run(&job, 1000.0, 0.0), 1.0);
        let share = share_of_last_run(&job, 1000.0, 1e-3);
        assert!((share - 1.0 / 1_f64.exp_m1()).abs() < 1e-9, "{share}");
        let hopeless = of(Machine { node_mtbf: HOUR / 60, ..MACHINE }, 1_000_000);
        assert!(hopeless.iter().all(|choice| (0.0..1e-3).contains(&choice.efficiency)), "{hopeless:?}");
        let alone = of(MACHINE, 1000).into_iter().find(|choice| choice.levels == [on(LevelKind::Memory, 2)]).unwrap();
        assert!((alone.unsurvived() - 0.549).abs() < 1e-3, "{alone:?}");
    }
}
