//! The plan of a run: drawn from a seed, and small enough to print.

use crate::{
    acts::{Act, ObjectSetting},
    cluster::Failure,
};
use fastrand::Rng;
use mainstay_engine::{Capture, Compress, Exchange, Recovery, Stage, space::Per};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Plan {
    /// Of the schedule.
    pub seed: u64,
    pub setting: Setting,
    pub rounds: Vec<Round>,
}

/// The cluster, and the settings of all its jobs.
#[derive(Debug, Clone)]
pub struct Setting {
    pub nodes: usize,
    /// Two nodes each share a rack, and fail together.
    pub has_racks: bool,
    /// The state is objects that move between the ranks.
    pub objects: Option<ObjectSetting>,
    /// The state is one global array, which any number of ranks divide among them.
    pub is_global: bool,
    pub recovery: Recovery,
    /// The copies of each shard in the memory of nodes; 0: no such level.
    pub memory_copies: u32,
    /// The same for the disks of nodes.
    pub disk_copies: u32,
    /// Every how many revisions one goes to the space.
    pub pfs_every: u32,
    pub keep: u32,
    pub per: Per,
    pub stage: Stage,
    pub capture: Capture,
    pub compress: Compress,
    pub exchange: Exchange,
    pub io_threads: u32,
    /// 0: as the shards need.
    pub portion_bytes: u64,
}

impl Setting {
    /// The nodes that fail with this one, and share its number.
    pub fn domain(&self, node: usize) -> usize {
        if self.has_racks { node / 2 } else { node }
    }
}

/// One job, and its end.
#[derive(Debug, Clone)]
pub struct Round {
    /// The node of each rank.
    pub seats: Vec<usize>,
    pub steps: Vec<Step>,
    pub faults: Vec<PlannedFault>,
    /// The nodes that are lost once the job is over, with their disks or without.
    pub lost: Vec<(usize, bool)>,
    /// Then a byte changes on a disk: this file of all, counted modulo their number, and this byte of it.
    pub rots: Option<(usize, u64)>,
}

/// All ranks of a job do the same steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Save {
        bytes: usize,
    },
    Wait,
    /// Looks whether the last revision is complete, this many times.
    Poll {
        times: u32,
    },
    Compute {
        time: Duration,
    },
    Rewind,
    /// Of a program with objects.
    Objects(Act),
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedFault {
    /// In the middle of this operation on files.
    DiesIn {
        rank: usize,
        operation: u64,
    },
    DiesAt {
        rank: usize,
        time: Duration,
    },
    Fails {
        rank: usize,
        operation: u64,
        failure: Failure,
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

impl Round {
    /// Nothing in it explains an error.
    pub fn is_healthy(&self) -> bool {
        self.faults.iter().all(|fault| matches!(fault, PlannedFault::ClockJumps { .. }))
    }
}

impl Plan {
    /// The plan with this seed.
    pub fn of(seed: u64) -> Plan {
        let random = &mut Rng::with_seed(seed);
        let setting = setting(random);
        let count = random.usize(1..=4);
        let seats = seats(setting.nodes, random);
        let mut rounds: Vec<Round> = (0..count).map(|_| round(&setting, &seats, random)).collect();
        rounds.push(last_round(seats));
        Plan { seed, setting, rounds }
    }
}

/// A job that shows that the space is of use.
pub fn last_round(seats: Vec<usize>) -> Round {
    let steps = vec![Step::Save { bytes: 9_000 }, Step::Wait, Step::Close];
    Round { seats, steps, faults: vec![], lost: vec![], rots: None }
}

pub fn setting(random: &mut Rng) -> Setting {
    let nodes = [1, 2, 2, 2, 2, 3, 4][random.usize(0..7)];
    let copies = |random: &mut Rng| [0, 0, 1, 2, 2][random.usize(0..5)];
    Setting {
        nodes,
        has_racks: nodes == 4,
        objects: None,
        is_global: random.bool(),
        recovery: [Recovery::Off, Recovery::Off, Recovery::Replace, Recovery::Shrink][random.usize(0..4)],
        memory_copies: copies(random),
        disk_copies: copies(random),
        pfs_every: random.u32(1..=3),
        keep: random.u32(1..=2),
        per: [Per::App, Per::Node, Per::Rank][random.usize(0..3)],
        stage: [Stage::Pool, Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct][random.usize(0..5)],
        capture: if random.bool() { Capture::Whole } else { Capture::Incremental },
        compress: [Compress::Off, Compress::Lz4][random.usize(0..2)],
        exchange: if random.bool() { Exchange::Background } else { Exchange::Blocking },
        io_threads: random.u32(1..=2),
        portion_bytes: if random.bool() { 0 } else { 1 << 20 },
    }
}

/// Bytes of a state: often small.
fn size(random: &mut Rng) -> usize {
    let bytes_max = (200 << 10) >> random.u8(0..5);
    random.usize(0..bytes_max)
}

/// The nodes of one to four ranks, in order. Each node has a rank: a node without one keeps its files to itself.
pub fn seats(nodes: usize, random: &mut Rng) -> Vec<usize> {
    let more = random.usize(nodes..=nodes.max(4)) - nodes;
    let mut seats: Vec<usize> = (0..nodes).chain((0..more).map(|_| random.usize(0..nodes))).collect();
    seats.sort_unstable();
    seats
}

pub fn round(setting: &Setting, usual: &[usize], random: &mut Rng) -> Round {
    let seats = if setting.is_global && random.bool() { seats(setting.nodes, random) } else { usual.to_vec() };
    let mut steps = Vec::new();
    for _ in 0..random.usize(1..=7) {
        steps.push(match random.u8(0..12) {
            0..8 => Step::Save { bytes: 1 + size(random) },
            8..10 => Step::Wait,
            10 => Step::Poll { times: random.u32(1..10) },
            _ => Step::Rewind,
        });
        match random.u8(0..4) {
            0 => steps.push(Step::Wait),
            1 => steps.push(Step::Compute { time: Duration::from_millis(random.u64(1..50)) }),
            _ => {}
        }
    }
    if random.bool() {
        steps.push(Step::Close);
    }
    let time = |random: &mut Rng| {
        let scale = random.u8(0..4);
        Duration::from_micros(random.u64(1..20_000) << scale)
    };
    let mut faults = Vec::new();
    for _ in 0..random.usize(0..3) {
        let rank = random.usize(0..seats.len());
        let operation = 1 + if random.bool() { random.u64(0..20) } else { random.u64(0..150) };
        faults.push(match random.u8(0..10) {
            0..4 => PlannedFault::DiesIn { rank, operation },
            4..6 => PlannedFault::DiesAt { rank, time: time(random) },
            6..8 => PlannedFault::Fails {
                rank,
                operation,
                failure: [Failure::Io, Failure::Full, Failure::Forgets][random.usize(0..3)],
            },
            8 => PlannedFault::NodeLost { node: seats[rank], time: time(random), with_disk: random.bool() },
            _ => PlannedFault::ClockJumps { time: time(random), by_seconds: random.i64(-86_400..86_400) },
        });
    }
    let mut lost = Vec::new();
    match random.u8(0..6) {
        0 | 1 => {
            let (one, with_disk) = (random.usize(0..setting.nodes), random.bool());
            let together = (0..setting.nodes).filter(|node| setting.domain(*node) == setting.domain(one));
            lost.extend(together.map(|node| (node, with_disk)));
        }
        2 => lost.extend((0..setting.nodes).map(|node| (node, false))),
        _ => {}
    }
    let rots = (random.u8(0..8) == 0).then(|| (random.usize(..), random.u64(..)));
    Round { seats, steps, faults, lost, rots }
}
