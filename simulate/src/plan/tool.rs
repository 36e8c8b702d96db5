//! The commands that run beside a job, or after it.

use super::Setting;
use crate::cluster::Failure;
use fastrand::Rng;
use std::time::Duration;

/// A command, as a process of its own.
#[derive(Debug, Clone)]
pub struct Tool {
    pub call: Call,
    /// The node that it runs on.
    pub node: usize,
    /// The time since the start of the job; `None`: the command runs after the job.
    pub time: Option<Duration>,
    /// The operation on files that fails, and its failure; `None`: the command dies there.
    pub fault: Option<(u64, Option<Failure>)>,
}

/// The work of a command. A revision is chosen by its age, among those that are complete: 0 is the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Reads the status, the newest revision, and the held ones.
    Look,
    Salvage,
    Hold {
        age: usize,
    },
    Release,
    Prune {
        keep_last: u64,
    },
    Rollback {
        age: usize,
        /// Gives up staged data on nodes that it does not see.
        gives_up: bool,
    },
    /// Copies all revisions to the space `copy`.
    Copy,
}

impl Tool {
    /// A look after the job, without a fault.
    pub const LOOK: Tool = Tool { call: Call::Look, node: 0, time: None, fault: None };

    /// The commands of one round.
    pub fn draw(setting: &Setting, random: &mut Rng) -> Vec<Tool> {
        let count = [0, 0, 0, 1, 1, 2, 3][random.usize(0..7)];
        (0..count).flat_map(|_| Tool::one(setting, random)).collect()
    }

    /// A command, after a salvage on each node if it needs one.
    fn one(setting: &Setting, random: &mut Rng) -> Vec<Tool> {
        let time = (random.u8(0..3) == 0).then(|| Duration::from_micros(random.u64(1..30_000) << random.u8(0..3)));
        let age = random.usize(0..3);
        let call = match random.u8(0..16) {
            0 => Call::Look,
            1 => Call::Salvage,
            2..7 => Call::Hold { age },
            7 => Call::Release,
            8..11 => Call::Prune { keep_last: random.u64(0..3) },
            11..14 => Call::Rollback { age, gives_up: random.u8(0..3) == 0 },
            _ => Call::Copy,
        };
        let failure = [None, None, Some(Failure::Io), Some(Failure::Full), Some(Failure::Forgets)][random.usize(0..5)];
        let fault = (random.u8(0..4) == 0).then(|| (1 + (random.u64(0..160) >> random.u8(0..4)), failure));
        let node = random.usize(0..setting.nodes);
        let mut all = Vec::new();
        if time.is_none() && matches!(call, Call::Rollback { .. } | Call::Prune { .. }) && random.u8(0..4) > 0 {
            let salvage = |node| Tool { call: Call::Salvage, node, time, fault: None };
            all.extend((0..setting.nodes).map(salvage));
        }
        all.push(Tool { call, node, time, fault });
        all
    }
}
