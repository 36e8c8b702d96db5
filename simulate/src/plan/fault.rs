//! The faults of a job.

use super::{Setting, Step};
use crate::cluster::{Ailment, Failure, Part};
use fastrand::Rng;
use std::time::Duration;

/// Others kill a rank that stalls for longer.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// A fault. Ranks have their numbers at the start of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedFault {
    /// The rank dies in the middle of this operation on files.
    DiesIn {
        rank: usize,
        operation: u64,
    },
    /// The same. Operations count from the moment when the rank begins to recover from another failure.
    DiesInRecovery {
        rank: usize,
        operation: u64,
    },
    DiesAt {
        rank: usize,
        time: Duration,
    },
    /// The job ends, and nodes are lost, when the rank returns from its step of this index.
    EndsAfter {
        rank: usize,
        step: usize,
        loss: Loss,
    },
    /// This operation of the rank on files fails.
    Fails {
        rank: usize,
        operation: u64,
        failure: Failure,
    },
    /// A file system ails from this time until the end of the job.
    Breaks {
        part: Part,
        time: Duration,
        ailment: Ailment,
    },
    /// The rank does nothing for `length`.
    Stalls {
        rank: usize,
        time: Duration,
        length: Duration,
    },
    NodeLost {
        node: usize,
        time: Duration,
        with_disk: bool,
    },
    ClockJumps {
        time: Duration,
        by_seconds: i64,
    },
}

/// The nodes that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    Nothing,
    /// The node of the rank, and the nodes that fail with it.
    Domain {
        with_disk: bool,
    },
    /// All nodes. Their disks stay.
    All,
}

impl PlannedFault {
    /// The time at which the operator carries it out.
    pub fn time(&self) -> Option<Duration> {
        match *self {
            PlannedFault::DiesAt { time, .. }
            | PlannedFault::Breaks { time, .. }
            | PlannedFault::Stalls { time, .. }
            | PlannedFault::NodeLost { time, .. }
            | PlannedFault::ClockJumps { time, .. } => Some(time),
            _ => None,
        }
    }

    /// The rank that it is for.
    pub fn rank(&self) -> Option<usize> {
        match *self {
            PlannedFault::DiesIn { rank, .. }
            | PlannedFault::DiesInRecovery { rank, .. }
            | PlannedFault::DiesAt { rank, .. }
            | PlannedFault::EndsAfter { rank, .. }
            | PlannedFault::Fails { rank, .. }
            | PlannedFault::Stalls { rank, .. } => Some(rank),
            _ => None,
        }
    }

    /// Whether the fault explains an error of a call.
    pub fn is_harmful(&self) -> bool {
        match self {
            PlannedFault::ClockJumps { .. } | PlannedFault::Breaks { ailment: Ailment::Slow, .. } => false,
            PlannedFault::Stalls { length, .. } => *length > HEARTBEAT,
            _ => true,
        }
    }

    /// The fault, and the kill that follows a long stall.
    fn with_kill(self) -> Vec<PlannedFault> {
        match self {
            PlannedFault::Stalls { rank, time, length } if length > HEARTBEAT => {
                vec![self, PlannedFault::DiesAt { rank, time: time + HEARTBEAT }]
            }
            _ => vec![self],
        }
    }

    /// The faults of one job with its ranks on `seats`.
    pub(super) fn draw(setting: &Setting, seats: &[usize], steps: &[Step], random: &mut Rng) -> Vec<PlannedFault> {
        let count = random.usize(0..3);
        let mut all: Vec<PlannedFault> =
            (0..count).flat_map(|_| PlannedFault::one(setting, seats, random).with_kill()).collect();
        if random.bool() {
            all.push(PlannedFault::ends_after(seats.len(), steps, random));
        }
        all
    }

    /// An end of the job, mostly after a save, or after the wait for it: most is promised then.
    fn ends_after(ranks: usize, steps: &[Step], random: &mut Rng) -> PlannedFault {
        let (rank, with_disk) = (random.usize(0..ranks), random.bool());
        let loss = [Loss::Nothing, Loss::All, Loss::All, Loss::Domain { with_disk }][random.usize(0..4)];
        let is_save = |index: usize| matches!(steps[index], Step::Save { .. });
        let is_awaited = |index: usize| index > 0 && is_save(index - 1) && steps[index] == Step::Wait;
        let is_after_wait = random.u8(0..3) > 0;
        let all = 0..steps.len();
        let chosen: Vec<usize> =
            all.filter(|index| if is_after_wait { is_awaited(*index) } else { is_save(*index) }).collect();
        let step = match chosen.len() {
            0 => random.usize(0..steps.len()),
            count => chosen[random.usize(0..count)],
        };
        PlannedFault::EndsAfter { rank, step, loss }
    }

    fn one(setting: &Setting, seats: &[usize], random: &mut Rng) -> PlannedFault {
        let rank = random.usize(0..seats.len());
        let operation = 1 + if random.bool() { random.u64(0..20) } else { random.u64(0..150) };
        let time = time(random);
        match random.u8(0..18) {
            0..6 => PlannedFault::DiesIn { rank, operation },
            6..8 => PlannedFault::DiesAt { rank, time },
            8..11 => {
                let failure = [Failure::Io, Failure::Full, Failure::Forgets][random.usize(0..3)];
                PlannedFault::Fails { rank, operation, failure }
            }
            11 => {
                let part = if random.bool() { Part::Shared } else { Part::Disk(random.usize(0..setting.nodes)) };
                let ailment = [Ailment::Io, Ailment::Full, Ailment::Slow][random.usize(0..3)];
                PlannedFault::Breaks { part, time, ailment }
            }
            12 => PlannedFault::Stalls { rank, time, length: stall_length(random) },
            13 => PlannedFault::DiesInRecovery { rank, operation },
            14 | 15 => PlannedFault::NodeLost { node: seats[rank], time, with_disk: random.bool() },
            _ => PlannedFault::ClockJumps { time, by_seconds: random.i64(-86_400..86_400) },
        }
    }
}

fn time(random: &mut Rng) -> Duration {
    let scale = random.u8(0..4);
    Duration::from_micros(random.u64(1..20_000) << scale)
}

fn stall_length(random: &mut Rng) -> Duration {
    Duration::from_millis([20, 200, 10_000][random.usize(0..3)])
}
