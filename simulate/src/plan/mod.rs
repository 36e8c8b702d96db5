//! The plan of a run: drawn from a seed, and small enough to print.

mod fault;
mod tool;

use crate::acts::{Act, ObjectSetting};
use fastrand::Rng;
pub use fault::{Loss, PlannedFault};
use mainstay_engine::{Capture, Compress, Exchange, Predictor, Recovery, Stage, Track, space::Per};
use std::{ops::Range, time::Duration};
pub use tool::{Call, Tool};

#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed of the schedule, too.
    pub seed: u64,
    pub setting: Setting,
    pub rounds: Vec<Round>,
}

/// The cluster, and the settings of all its jobs.
#[derive(Debug, Clone)]
pub struct Setting {
    pub nodes: usize,
    /// Every two nodes share a rack, and fail together.
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
    /// The space gets each revision whose number is a multiple of this.
    pub pfs_every: u32,
    pub keep: u32,
    pub per: Per,
    pub stage: Stage,
    pub capture: Capture,
    pub compress: Compress,
    pub track: Track,
    pub predictor: Predictor,
    pub calls: Calls,
    pub exchange: Exchange,
    pub io_threads: u32,
    /// The size of a rank's own state, if it is not global.
    pub bytes: Range<usize>,
    /// The size of a portion; 0: as the shards need.
    pub portion_bytes: u64,
}

impl Setting {
    /// The number of the failure domain. Its nodes fail together.
    pub fn domain(&self, node: usize) -> usize {
        if self.has_racks { node / 2 } else { node }
    }
}

/// How a program saves its large region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// It is protected.
    Regions,
    /// `put` and `get`.
    Buffer,
    /// In pieces, as a stream.
    Pieces,
}

/// One job, and its end.
#[derive(Debug, Clone, Default)]
pub struct Round {
    /// The node of each rank.
    pub seats: Vec<usize>,
    pub steps: Vec<Step>,
    pub faults: Vec<PlannedFault>,
    pub tools: Vec<Tool>,
    /// A second job starts on the space at this time of the first, with the same ranks.
    pub rival: Option<Duration>,
    /// After the job, nodes are lost before the commands run, not after them.
    pub loses_first: bool,
    /// The nodes that are lost after the job; true: with the disk.
    pub lost: Vec<(usize, bool)>,
    /// In the end a byte changes on a disk: the number of the file, and the byte in it.
    pub rots: Option<(usize, u64)>,
}

/// A step of a program. All ranks of a job do the same steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Saves a state of so many bytes. The program keeps it for some ticks before, so that pages can be saved early.
    Save {
        bytes: usize,
        ticks: u32,
    },
    Wait,
    /// Looks whether the last revision is complete, this many times.
    Poll {
        times: u32,
    },
    Compute {
        time: Duration,
    },
    /// Restores the last revision within the job.
    Rewind,
    /// Lets the objects act.
    Objects(Act),
    Close,
}

impl Round {
    /// The second job on the space. It lists the faults of the first, because they explain its errors, too.
    pub fn of_rival(&self) -> Round {
        let (seats, steps) = (self.seats.clone(), vec![Step::Save { bytes: 3_000, ticks: 0 }, Step::Wait, Step::Close]);
        Round { seats, steps, faults: self.faults.clone(), rival: self.rival, ..Round::default() }
    }

    /// Whether no fault explains an error.
    pub fn is_healthy(&self) -> bool {
        !self.faults.iter().any(PlannedFault::is_harmful)
    }
}

impl Plan {
    /// The plan with this seed.
    pub fn of(seed: u64) -> Plan {
        let random = &mut Rng::with_seed(seed);
        let setting = setting(random);
        let count = random.usize(1..=5);
        let seats = seats(setting.nodes, random);
        let mut rounds: Vec<Round> = (0..count).map(|_| round(&setting, &seats, random)).collect();
        rounds.push(last_round(seats));
        Plan { seed, setting, rounds }
    }
}

/// The last job of a plan, without faults: the space must still be of use.
pub fn last_round(seats: Vec<usize>) -> Round {
    let steps = vec![Step::Save { bytes: 9_000, ticks: 0 }, Step::Wait, Step::Close];
    Round { seats, steps, ..Round::default() }
}

pub fn setting(random: &mut Rng) -> Setting {
    let nodes = [1, 2, 2, 2, 3, 4, 4][random.usize(0..7)];
    // A portion with little room must use free blocks again at once.
    let is_tight = random.u8(0..6) == 0;
    let is_global = !is_tight && random.bool();
    let early = [Predictor::Idle, Predictor::Count, Predictor::Told, Predictor::Told];
    let predictor = if random.u8(0..3) == 0 { early[random.usize(0..4)] } else { Predictor::Off };
    let is_early = predictor != Predictor::Off;
    let bytes = if is_tight { (300 << 10)..(500 << 10) } else { 1..((200 << 10) >> random.u8(0..5)) };
    let copies = |random: &mut Rng| [0, 0, 1, 2, 2][random.usize(0..5)];
    Setting {
        nodes,
        has_racks: nodes == 4,
        objects: None,
        is_global,
        recovery: [Recovery::Off, Recovery::Off, Recovery::Replace, Recovery::Shrink][random.usize(0..4)],
        memory_copies: if is_early { 0 } else { copies(random) },
        disk_copies: copies(random),
        pfs_every: random.u32(1..=3),
        keep: random.u32(1..=2),
        per: [Per::App, Per::Node, Per::Rank][random.usize(0..3)],
        stage: [Stage::Pool, Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct][random.usize(0..5)],
        capture: if !is_early && random.bool() { Capture::Whole } else { Capture::Incremental },
        compress: [Compress::Off, Compress::Lz4][random.usize(0..2)],
        track: if is_early || random.bool() { Track::Auto } else { Track::Hashes },
        predictor,
        calls: if is_global { Calls::Regions } else { calls(random) },
        exchange: if random.bool() { Exchange::Background } else { Exchange::Blocking },
        io_threads: random.u32(1..=2),
        portion_bytes: if is_tight || random.bool() { 1 << 20 } else { 0 },
        bytes,
    }
}

fn ticks(setting: &Setting, random: &mut Rng) -> u32 {
    if setting.predictor == Predictor::Off || random.bool() { 0 } else { random.u32(1..10) }
}

fn calls(random: &mut Rng) -> Calls {
    [Calls::Regions, Calls::Regions, Calls::Buffer, Calls::Pieces][random.usize(0..4)]
}

/// Bytes of a state.
fn size(setting: &Setting, random: &mut Rng) -> usize {
    random.usize(setting.bytes.clone())
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
    for _ in 0..random.usize(1..=8) {
        steps.push(match random.u8(0..12) {
            0..8 => Step::Save { bytes: size(setting, random), ticks: ticks(setting, random) },
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
    let rival = (random.u8(0..8) == 0).then(|| Duration::from_micros(random.u64(1..60_000) >> (8 * random.u8(0..2))));
    if rival.is_some() {
        // The other waits for the first job, and gives up if that lives long.
        let time = Duration::from_millis(100 << random.u8(0..10));
        steps.insert(random.usize(0..steps.len()), Step::Compute { time });
    }
    let faults = PlannedFault::draw(setting, &seats, &steps, random);
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
    let (tools, loses_first) = (Tool::draw(setting, random), random.bool());
    Round { seats, steps, faults, tools, rival, loses_first, lost, rots }
}
