//! A simulation of a job that fails, event by event: the judge of the formulas, which it does not use. It shares with
//! them the costs of the machine alone.
//!
//! The program computes, and waits for a checkpoint at each interval. Levels then have it under way, and slow the program
//! down, until it counts there. A failure may come at any moment, also during a checkpoint or a restart. It takes the data
//! of some levels along, and what is under way on all. The job goes back to the newest data that is left.

use super::machine::{Job, LevelCopies};
use crate::space::LevelKind;
use std::time::Duration;

/// More events are not simulated: the job makes no progress, or hardly ever fails.
const EVENTS_MAX: u64 = 20_000_000;
/// Times that differ by less, in seconds, are the same.
const ROUNDING: f64 = 1e-6;
/// A run that was not done after so many times the requested failures is cut off.
const FAILURES_FACTOR: u64 = 4;

/// How a job saves.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The levels, the nearest first, and the number of checkpoints between two that go there.
    pub levels: Vec<(LevelCopies, u64)>,
    /// The computing time between two checkpoints.
    pub interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulated {
    /// The useful share of the time.
    pub efficiency: f64,
    /// Its standard error. `None`: fewer than two runs were done.
    pub error: Option<f64>,
    pub failures: u64,
    /// Failures after which the job began again.
    pub begun_again: u64,
}

/// Runs jobs of the computing time `run`, one after another, until `failures` failures have come. `draw` gives random
/// numbers from 0 to below 1; the same numbers give the same result.
pub fn simulate(
    job: &Job,
    schedule: &Schedule,
    run: Duration,
    failures: u64,
    draw: &mut dyn FnMut() -> f64,
) -> Simulated {
    let next_failure = |draw: &mut dyn FnMut() -> f64| -(1.0 - draw()).ln() / job.failures();
    let new = || Run::new(job, schedule, run.as_secs_f64());
    let mut undisturbed = new();
    undisturbed.until(f64::INFINITY);
    let mut seen = Seen { events: undisturbed.events, ..Seen::default() };
    let mut fails_in = next_failure(draw);
    while seen.failures < failures && seen.events < EVENTS_MAX {
        let quiet = (fails_in / undisturbed.now).floor();
        seen.add(&undisturbed, quiet);
        let mut one = new();
        let mut fails_at = fails_in - quiet * undisturbed.now;
        while one.until(fails_at) && seen.failures < FAILURES_FACTOR * failures {
            seen.failures += 1;
            seen.begun_again += u64::from(!one.fail(Failure::drawn(job, draw)));
            fails_at += next_failure(draw);
        }
        seen.add(&one, 1.0);
        seen.events += one.events;
        fails_in = fails_at - one.now;
    }
    Simulated {
        efficiency: seen.work / seen.time,
        error: seen.relative_error().map(|error| error * seen.work / seen.time),
        failures: seen.failures,
        begun_again: seen.begun_again,
    }
}

/// The runs so far.
#[derive(Default)]
struct Seen {
    runs: f64,
    work: f64,
    time: f64,
    squares: f64,
    events: u64,
    failures: u64,
    begun_again: u64,
}

impl Seen {
    fn add(&mut self, run: &Run<'_>, times: f64) {
        self.runs += times;
        self.work += times * run.work;
        self.time += times * run.now;
        self.squares += times * run.now * run.now;
    }

    /// The standard error of the mean time of a run, as a share of it.
    fn relative_error(&self) -> Option<f64> {
        let mean = self.time / self.runs;
        let variance = (self.squares / self.runs - mean * mean).max(0.0);
        (self.runs >= 2.0).then(|| (variance / (self.runs - 1.0)).sqrt() / mean)
    }
}

#[derive(Clone, Copy)]
enum Failure {
    Processes,
    Node(u64),
    AllNodes,
}

impl Failure {
    fn drawn(job: &Job, draw: &mut dyn FnMut() -> f64) -> Failure {
        let (processes, node) = (job.process_failures(), job.node_losses());
        let which = draw() * job.failures();
        if which < processes {
            Failure::Processes
        } else if which < processes + node {
            Failure::Node((draw() * job.nodes() as f64) as u64)
        } else {
            Failure::AllNodes
        }
    }
}

/// The state at a checkpoint: the work done, and the number of the checkpoint.
#[derive(Clone, Copy, PartialEq)]
struct Saved {
    work: f64,
    number: u64,
}

struct Level {
    on: LevelCopies,
    every: u64,
    has: Option<Saved>,
    under_way: Option<(Saved, f64)>,
}

/// One run of the job. Times are in seconds since it began.
struct Run<'a> {
    job: &'a Job,
    interval: f64,
    /// The work to do, and the work done.
    wanted: f64,
    work: f64,
    now: f64,
    /// The number of the last checkpoint.
    number: u64,
    /// The work at the last checkpoint.
    since: f64,
    /// The program waits until then.
    waits_until: f64,
    levels: Vec<Level>,
    /// Lost nodes, and the times of their losses.
    lost: Vec<(u64, f64)>,
    events: u64,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job, schedule: &Schedule, wanted: f64) -> Run<'a> {
        let level = |(on, every): &(LevelCopies, u64)| Level { on: *on, every: *every, has: None, under_way: None };
        Run {
            job,
            interval: schedule.interval.as_secs_f64(),
            wanted,
            work: 0.0,
            now: 0.0,
            number: 0,
            since: 0.0,
            waits_until: 0.0,
            levels: schedule.levels.iter().map(level).collect(),
            lost: Vec::new(),
            events: 0,
        }
    }

    /// Goes on until `end`: true. False: the job is done before, or cut off.
    fn until(&mut self, end: f64) -> bool {
        while self.now < end {
            if self.work >= self.wanted || self.events >= EVENTS_MAX {
                return false;
            }
            self.events += 1;
            let arrives = self.levels.iter().filter_map(|level| level.under_way.map(|(_, at)| at));
            let event = arrives.fold(end, f64::min);
            if self.now < self.waits_until {
                self.now = event.min(self.waits_until);
            } else {
                self.compute(event);
            }
            self.arrive();
        }
        true
    }

    /// Computes until `event`, or until the next checkpoint or the end of the work, if that comes first.
    fn compute(&mut self, event: f64) {
        let busy = self.levels.iter().filter(|level| level.under_way.is_some()).count();
        let speed = 1.0 - self.job.machine.slowdown * busy as f64;
        let (due, goal) = (self.since + self.interval, self.wanted);
        let target = due.min(goal);
        let reached_at = self.now + (target - self.work) / speed;
        if reached_at > event {
            self.work += (event - self.now) * speed;
            self.now = event;
            return;
        }
        (self.now, self.work) = (reached_at, target);
        self.arrive();
        if target < goal {
            self.checkpoint();
        }
    }

    fn checkpoint(&mut self) {
        self.number += 1;
        self.since = self.work;
        self.waits_until = self.now + self.job.perceived();
        let saved = Saved { work: self.work, number: self.number };
        for level in self.levels.iter_mut().filter(|level| level.under_way.is_none()) {
            if saved.number.is_multiple_of(level.every) {
                level.under_way = Some((saved, self.waits_until + self.job.under_way(level.on)));
            }
        }
    }

    fn arrive(&mut self) {
        for level in &mut self.levels {
            if let Some((saved, at)) = level.under_way
                && at <= self.now + ROUNDING
            {
                (level.has, level.under_way) = (Some(saved), None);
            }
        }
    }

    /// The job fails now, and goes back. False: to its beginning.
    fn fail(&mut self, failure: Failure) -> bool {
        if let Failure::Node(node) = failure {
            let exposed = self.levels.iter().map(|level| self.job.exposed(level.on)).fold(0.0, f64::max);
            self.lost.retain(|(other, at)| *other != node && self.now - at < exposed);
            self.lost.push((node, self.now));
        }
        for at in 0..self.levels.len() {
            self.levels[at].under_way = None;
            if !self.survives(self.levels[at].on, failure) {
                self.levels[at].has = None;
            }
        }
        let newest = self.levels.iter().filter_map(|level| Some((level.has?, level.on)));
        // Of equally new data the nearest.
        let newest = newest.reduce(|best, other| if other.0.number > best.0.number { other } else { best });
        let back = newest.map_or(Saved { work: 0.0, number: 0 }, |(saved, _)| saved);
        (self.work, self.since, self.number) = (back.work, back.work, back.number);
        self.waits_until = self.now + self.job.restart(newest.map(|(_, on)| on));
        // The restored data goes to the levels that have none.
        for level in self.levels.iter_mut().filter(|level| level.has.is_none()) {
            level.under_way = newest.map(|_| (back, self.waits_until + self.job.under_way(level.on)));
        }
        newest.is_some()
    }

    fn survives(&self, on: LevelCopies, failure: Failure) -> bool {
        match (on.level, failure) {
            (LevelKind::Pfs, _) | (_, Failure::Processes) => true,
            (level, Failure::AllNodes) => level == LevelKind::Disk,
            (_, Failure::Node(node)) => {
                let exposed = self.job.exposed(on);
                let lost = self.lost.iter().filter(|(_, at)| self.now - at < exposed).map(|(node, _)| *node);
                !takes_last_copy(self.job, on.copies, node, &lost.collect::<Vec<u64>>())
            }
        }
    }
}

/// Does the loss of `node` take the last copy of a shard along? `lost`: the nodes without their copies, and `node`.
fn takes_last_copy(job: &Job, copies: u64, node: u64, lost: &[u64]) -> bool {
    if (lost.len() as u64) < copies {
        return false;
    }
    let nodes = job.nodes();
    let ranks = job.machine.ranks_per_node.min(nodes);
    // The copies of the ranks of a node are on the next nodes in a circle, each on others.
    let holders = |owner: u64, rank: u64| {
        let other = move |copy: u64| (owner + 1 + (rank * (copies - 1) + copy) % (nodes - 1).max(1)) % nodes;
        (0..copies - 1).map(other).chain([owner])
    };
    let is_lost = |owner: u64, rank: u64| {
        holders(owner, rank).all(|holder| lost.contains(&holder)) && holders(owner, rank).any(|holder| holder == node)
    };
    lost.iter().any(|owner| (0..ranks).any(|rank| is_lost(*owner, rank)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Choice, choices, last_copy_lost,
        machine::{
            Machine,
            tests::{DAY, HOUR, MACHINE, on},
        },
    };
    use std::iter::zip;

    const FAILURES: u64 = 2000;

    fn schedule(choice: &Choice) -> Schedule {
        let every = choice.pattern.every.iter().map(|every| every.unwrap());
        Schedule { levels: zip(choice.levels.iter().copied(), every).collect(), interval: choice.pattern.interval }
    }

    fn simulated(job: &Job, schedule: &Schedule, run: Duration, failures: u64) -> Simulated {
        let mut rng = fastrand::Rng::with_seed(7);
        simulate(job, schedule, run, failures, &mut || rng.f64())
    }

    /// The formulas hold while restarts, and data under way, are short beside the time between failures. The simulation
    /// says nothing of failures that hardly ever come. A level that is slower than a farther one helps less than the
    /// formulas say.
    fn both_apply(job: &Job, choice: &Choice) -> bool {
        let is_seen = |share: f64| share * FAILURES as f64 > 100.0;
        let back = |(on, left): (&LevelCopies, &f64)| left * (job.restart(Some(*on)) + job.under_way(*on));
        choice.left.iter().all(|left| is_seen(*left))
            && choice.unsurvived() < 1e-9
            && choice.levels.iter().map(|on| job.under_way(*on)).is_sorted()
            && zip(&choice.levels, &choice.left).map(back).sum::<f64>() * job.failures() < 0.15
            && choice.efficiency > 0.3
    }

    #[test]
    fn the_formulas_and_the_simulation_agree_within_5_per_cent() {
        let mut compared = 0;
        let machine = |node_mtbf, outage, slowdown| Machine {
            node_mtbf: node_mtbf * HOUR,
            outage_mtbf: Some(outage * HOUR),
            slowdown,
            ..MACHINE
        };
        for (ranks, machine) in [
            (1000, machine(500, 500, 0.05)),
            (1000, machine(5000, 50, 0.2)),
            (100_000, machine(500, 5, 0.0)),
            (100_000, machine(5000, 20, 0.05)),
        ] {
            let job = Job { machine, ranks };
            let all = choices(&job, 20 * DAY).unwrap();
            for choice in all.iter().filter(|choice| both_apply(&job, choice)) {
                let simulated = simulated(&job, &schedule(choice), 20 * DAY, FAILURES);
                let of = |value: f64, expected: f64| (value / expected - 1.0).abs();
                assert!(
                    of(simulated.efficiency, choice.efficiency) < 0.05
                        && of(1.0 - simulated.efficiency, 1.0 - choice.efficiency) < 0.05,
                    "{ranks} ranks, {machine:?}: {choice:?}, but {simulated:?}"
                );
                compared += 1;
            }
        }
        assert!(compared >= 12, "only {compared} choices were compared");
    }

    /// Here nine failures of ten are followed by a new beginning.
    #[test]
    fn a_job_that_begins_again_takes_as_long_as_the_formula_says() {
        let machine = Machine { node_mtbf: 20_000 * HOUR, processes: 0.1, outage_mtbf: None, ..MACHINE };
        let job = Job { machine, ranks: 10_000 };
        let all = choices(&job, 20 * DAY).unwrap();
        let choice = all.iter().find(|choice| choice.levels == [on(LevelKind::Memory, 1)]).unwrap();
        let simulated = simulated(&job, &schedule(choice), 20 * DAY, 5 * FAILURES);
        assert!((simulated.efficiency / choice.efficiency - 1.0).abs() < 0.05, "{choice:?}, {simulated:?}");
        assert!(choice.efficiency < 0.6 && simulated.begun_again > 8 * FAILURES / 2, "{simulated:?}");
    }

    #[test]
    fn the_best_interval_is_where_the_formulas_say() {
        let machine = Machine { node_mtbf: 5000 * HOUR, outage_mtbf: Some(20 * HOUR), ..MACHINE };
        let job = Job { machine, ranks: 100_000 };
        let all = choices(&job, 20 * DAY).unwrap();
        let choice =
            all.iter().find(|choice| choice.levels == [on(LevelKind::Memory, 2), on(LevelKind::Pfs, 1)]).unwrap();
        let best = schedule(choice);
        let loses = |times: f64| {
            let other = Schedule { interval: best.interval.mul_f64(times), ..best.clone() };
            1.0 - simulated(&job, &other, 20 * DAY, FAILURES).efficiency
        };
        let (shorter, at_best, longer) = (loses(0.4), loses(1.0), loses(2.5));
        assert!(shorter > 1.1 * at_best && longer > 1.1 * at_best, "{shorter}, {at_best}, {longer}");
    }

    #[test]
    fn the_same_numbers_give_the_same_result() {
        let job = Job { machine: Machine { node_mtbf: 500 * HOUR, ..MACHINE }, ranks: 1000 };
        let schedule = Schedule { levels: vec![(on(LevelKind::Pfs, 1), 1)], interval: HOUR };
        let with = |seed| {
            let mut rng = fastrand::Rng::with_seed(seed);
            simulate(&job, &schedule, 20 * DAY, 100, &mut || rng.f64())
        };
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }

    /// The formula counts the groups of nodes that hold the copies of a shard; the simulation places each copy.
    #[test]
    fn copies_are_lost_with_as_many_groups_of_nodes_as_the_formula_says() {
        let job = Job { machine: Machine { ranks_per_node: 4, ..MACHINE }, ranks: 80 };
        let pairs = (0..20).filter(|other| *other != 5 && takes_last_copy(&job, 2, 5, &[*other, 5])).count();
        let two = (0..20).flat_map(|one| (one + 1..20).map(move |other| (one, other)));
        let threes = two.filter(|(one, other)| takes_last_copy(&job, 3, 5, &[*one, *other, 5])).count();
        let of = |copies: u64| last_copy_lost(20, 4, copies, 1_000_000 * HOUR, HOUR) * 1e6_f64.powi(copies as i32 - 1);
        assert!((of(2) / pairs as f64 - 1.0).abs() < 1e-3, "{pairs} pairs, {} by formula", of(2));
        assert!((of(3) / threes as f64 - 1.0).abs() < 1e-3, "{threes} groups of three, {} by formula", of(3));
    }

    #[test]
    fn the_second_node_is_one_too_many_until_the_copies_are_there_again() {
        let job = Job { machine: MACHINE, ranks: 1000 };
        let copied = on(LevelKind::Memory, 2);
        let schedule = Schedule { levels: vec![(copied, 1)], interval: HOUR };
        let survives = |node, after| {
            let mut run = Run::new(&job, &schedule, 1e6);
            run.until(10_000.0);
            assert!(run.fail(Failure::Node(3)));
            run.until(10_000.0 + after);
            run.fail(Failure::Node(node))
        };
        let exposed = job.exposed(copied);
        assert!(!survives(4, exposed - 1.0) && survives(4, exposed + 1.0) && survives(3, 1.0));
    }

    #[test]
    fn a_job_that_makes_no_progress_ends() {
        let job = Job { machine: Machine { node_mtbf: HOUR, ..MACHINE }, ranks: 1_000_000 };
        let schedule = |interval| Schedule { levels: vec![(on(LevelKind::Pfs, 1), 1)], interval };
        let hopeless = simulated(&job, &schedule(HOUR), 20 * DAY, 1000);
        assert!(hopeless.efficiency < 1e-3 && hopeless.failures >= 1000 && hopeless.error.is_none(), "{hopeless:?}");
    }

    #[test]
    fn each_kind_of_failure_takes_its_levels() {
        let after = |failure, level| {
            let job = Job { machine: MACHINE, ranks: 1000 };
            let schedule = Schedule { levels: vec![(level, 1)], interval: HOUR };
            let mut run = Run::new(&job, &schedule, 1e6);
            run.until(10_000.0);
            run.fail(failure)
        };
        let [memory, copied, disk, space] =
            [(LevelKind::Memory, 1), (LevelKind::Memory, 2), (LevelKind::Disk, 1), (LevelKind::Pfs, 1)].map(
                |(level, copies)| {
                    [Failure::Processes, Failure::Node(3), Failure::AllNodes].map(|one| after(one, on(level, copies)))
                },
            );
        assert_eq!((memory, copied), ([true, false, false], [true, true, false]));
        assert_eq!((disk, space), ([true, false, true], [true; 3]));
    }

    /// Until t3 the checkpoint before counts.
    #[test]
    fn a_failure_goes_back_to_the_newest_data_that_is_there() {
        let job = Job { machine: Machine { slowdown: 0.0, ..MACHINE }, ranks: 1000 };
        let levels = vec![(on(LevelKind::Memory, 2), 1), (on(LevelKind::Pfs, 1), 2)];
        let schedule = Schedule { levels, interval: Duration::from_secs(100) };
        let back = |at, failure| {
            let mut run = Run::new(&job, &schedule, 1e6);
            run.until(at);
            run.fail(failure);
            run.work
        };
        // Checkpoints end after 101 s, 202 s and 303 s; the memory of others has them 5 s later, and so does the space.
        assert_eq!([104.0, 107.0, 309.0].map(|at| back(at, Failure::Processes)), [0.0, 100.0, 300.0]);
        assert_eq!([107.0, 206.0, 209.0, 309.0].map(|at| back(at, Failure::AllNodes)), [0.0, 0.0, 200.0, 200.0]);
    }
}
