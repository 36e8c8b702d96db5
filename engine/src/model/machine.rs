//! The costs of a machine, and from them those of a job: a checkpoint, a restart, and the memory for both.

use super::memory_bytes;
use crate::space::LevelKind;
use std::time::Duration;

/// A machine, and the share of it that one rank uses. Bandwidths are in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    pub ranks_per_node: u64,
    /// Bytes that a rank saves.
    pub rank_bytes: u64,
    /// Bandwidth at which the ranks of a node together copy memory.
    pub copy: f64,
    /// Bandwidth of a node's network, in each direction.
    pub network: f64,
    /// Time of a small message between two nodes.
    pub message: Duration,
    /// Bandwidth of a node's disk.
    pub disk: f64,
    /// Bandwidth of the file system that all nodes share.
    pub file_system: f64,
    /// Metadata operations a second of the shared file system.
    pub metadata: f64,
    /// Metadata operations of a rank in a checkpoint, and in an opening.
    pub checkpoint_operations: f64,
    pub open_operations: f64,
    /// Share of its speed that the program loses while a level has a checkpoint under way: 0 to [`SLOWDOWN_MAX`].
    pub slowdown: f64,
    /// Time from a failure until the ranks run again, before they open the space.
    pub relaunch: Duration,
    /// Mean time between the failures of one node.
    pub node_mtbf: Duration,
    /// Share of these failures that leave the node's memory in place: only its processes fail.
    pub processes: f64,
    /// Mean time between failures of all nodes at once, such as a loss of power. `None`: never.
    pub outage_mtbf: Option<Duration>,
}

/// With three levels under way, the program keeps some of its speed.
pub const SLOWDOWN_MAX: f64 = 0.3;

/// A level, and the number of nodes that each shard is on. The space has one copy, which all nodes see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelCopies {
    pub level: LevelKind,
    pub copies: u64,
}

/// A job on all of the machine: so many ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    pub machine: Machine,
    pub ranks: u64,
}

impl Job {
    pub fn nodes(&self) -> u64 {
        self.ranks.div_ceil(self.machine.ranks_per_node)
    }

    /// Bytes that a full node saves.
    pub fn node_bytes(&self) -> f64 {
        self.machine.rank_bytes as f64 * self.ranks.min(self.machine.ranks_per_node) as f64
    }

    /// t2 − t1, in seconds: one all-reduce of log₂ P messages, then one copy.
    pub fn perceived(&self) -> f64 {
        self.collective() + self.node_bytes() / self.machine.copy
    }

    /// t3 − t2 on this level, in seconds. Levels are fed side by side.
    pub fn under_way(&self, on: LevelCopies) -> f64 {
        let (bytes, machine) = (self.node_bytes(), &self.machine);
        let copies = on.copies as f64;
        let sent = (copies - 1.0) * bytes / machine.network;
        match on.level {
            LevelKind::Memory => sent,
            LevelKind::Disk => sent + copies * bytes / machine.disk,
            LevelKind::Pfs => self.shared() + self.metadata(machine.checkpoint_operations),
        }
    }

    /// The time from a failure until the program goes on from this level, in seconds: relaunch, opening, and reading.
    /// With copies, a node may have lost its shards, and gets them from others. `None`: from the beginning.
    pub fn restart(&self, from: Option<LevelCopies>) -> f64 {
        let (bytes, machine) = (self.node_bytes(), &self.machine);
        let sent = |copies| if copies > 1 { bytes / machine.network } else { 0.0 };
        let read = from.map_or(0.0, |from| match from.level {
            LevelKind::Memory => bytes / machine.copy + sent(from.copies),
            LevelKind::Disk => bytes / machine.disk + sent(from.copies),
            LevelKind::Pfs => self.shared(),
        });
        machine.relaunch.as_secs_f64() + self.metadata(machine.open_operations) + self.collective() + read
    }

    /// The time from the loss of a node until all copies are there again, in seconds.
    pub fn exposed(&self, on: LevelCopies) -> f64 {
        self.restart(Some(on)) + self.under_way(on)
    }

    /// Bytes of a node's memory for checkpoints to these levels, the nearest first: the memory level, or a pool that
    /// holds the state. `None`: the number is too large.
    pub fn memory_bytes(&self, levels: &[LevelCopies], keep: u64) -> Option<u64> {
        let rank = match levels {
            [LevelCopies { level: LevelKind::Memory, copies }, farther @ ..] => {
                memory_bytes(self.machine.rank_bytes, *copies, keep, farther.len() as u64)?
            }
            _ => self.machine.rank_bytes,
        };
        rank.checked_mul(self.ranks.min(self.machine.ranks_per_node))
    }

    /// Failures of the job a second: all three kinds that follow.
    pub fn failures(&self) -> f64 {
        self.process_failures() + self.node_losses() + self.outages()
    }

    /// Failures a second in which only processes die, on any node.
    pub fn process_failures(&self) -> f64 {
        self.machine.processes * self.node_failures()
    }

    /// Losses of any node a second.
    pub fn node_losses(&self) -> f64 {
        (1.0 - self.machine.processes) * self.node_failures()
    }

    /// Failures of all nodes a second.
    pub fn outages(&self) -> f64 {
        self.machine.outage_mtbf.map_or(0.0, |mtbf| 1.0 / mtbf.as_secs_f64())
    }

    fn node_failures(&self) -> f64 {
        self.nodes() as f64 / self.machine.node_mtbf.as_secs_f64()
    }

    fn collective(&self) -> f64 {
        f64::from(self.ranks.max(1).next_power_of_two().ilog2()) * self.machine.message.as_secs_f64()
    }

    /// The time to move all bytes to or from the shared file system.
    fn shared(&self) -> f64 {
        let all = self.machine.rank_bytes as f64 * self.ranks as f64 / self.machine.file_system;
        all.max(self.node_bytes() / self.machine.network)
    }

    fn metadata(&self, operations: f64) -> f64 {
        operations * self.ranks as f64 / self.machine.metadata
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const HOUR: Duration = Duration::from_secs(3600);
    pub const DAY: Duration = Duration::from_secs(86_400);

    /// 100 ranks of 1 GB on each node.
    pub const MACHINE: Machine = Machine {
        ranks_per_node: 100,
        rank_bytes: 1_000_000_000,
        copy: 100e9,
        network: 20e9,
        message: Duration::from_micros(2),
        disk: 5e9,
        file_system: 1e12,
        metadata: 100_000.0,
        checkpoint_operations: 0.0,
        open_operations: 2.0,
        slowdown: 0.05,
        relaunch: Duration::from_secs(30),
        node_mtbf: Duration::from_secs(3 * 365 * 86_400),
        processes: 0.3,
        outage_mtbf: Some(Duration::from_secs(90 * 86_400)),
    };

    pub const fn on(level: LevelKind, copies: u64) -> LevelCopies {
        LevelCopies { level, copies }
    }

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-9, "{value} instead of {expected}");
    }

    #[test]
    fn a_checkpoint_costs_messages_and_one_copy_on_any_number_of_ranks() {
        for (ranks, steps) in [(1, 0.0), (1000, 10.0), (1024, 10.0), (1025, 11.0), (1_000_000, 20.0)] {
            let job = Job { machine: MACHINE, ranks };
            let bytes = 1e9 * ranks.min(100) as f64;
            near(job.perceived(), steps * 2e-6 + bytes / 100e9);
            near(job.under_way(on(LevelKind::Memory, 3)), 2.0 * bytes / 20e9);
            near(job.under_way(on(LevelKind::Disk, 1)), bytes / 5e9);
            near(job.under_way(on(LevelKind::Disk, 2)), 2.0 * bytes / 5e9 + bytes / 20e9);
        }
        let large = Job { machine: MACHINE, ranks: 1_000_000 };
        assert_eq!(large.under_way(on(LevelKind::Memory, 1)), 0.0);
        near(large.under_way(on(LevelKind::Pfs, 1)), 1000.0);
        // Ten nodes cannot fill the file system.
        near(Job { machine: MACHINE, ranks: 1000 }.under_way(on(LevelKind::Pfs, 1)), 5.0);
        let opens = Machine { checkpoint_operations: 1.0, ..MACHINE };
        near(Job { machine: opens, ranks: 1_000_000 }.under_way(on(LevelKind::Pfs, 1)), 1010.0);
    }

    #[test]
    fn a_restart_opens_and_reads() {
        let job = Job { machine: MACHINE, ranks: 1_000_000 };
        let opened = 30.0 + 20.0 + 40e-6;
        near(job.restart(None), opened);
        near(job.restart(Some(on(LevelKind::Memory, 1))), opened + 1.0);
        near(job.restart(Some(on(LevelKind::Memory, 2))), opened + 1.0 + 5.0);
        near(job.restart(Some(on(LevelKind::Disk, 1))), opened + 20.0);
        near(job.restart(Some(on(LevelKind::Pfs, 1))), opened + 1000.0);
        near(job.exposed(on(LevelKind::Memory, 2)), opened + 1.0 + 5.0 + 5.0);
    }

    #[test]
    fn a_node_keeps_copies_or_a_pool() {
        let bytes = |ranks, levels: &[LevelCopies]| Job { machine: MACHINE, ranks }.memory_bytes(levels, 1).unwrap();
        let (memory, space) = (on(LevelKind::Memory, 2), on(LevelKind::Pfs, 1));
        assert_eq!(bytes(1000, &[memory]), 400_000_000_000);
        assert_eq!(bytes(1000, &[memory, space]), 500_000_000_000);
        assert_eq!([bytes(1000, &[space]), bytes(7, &[space])], [100_000_000_000, 7_000_000_000]);
        let too_large = Machine { rank_bytes: u64::MAX, ..MACHINE };
        assert_eq!(Job { machine: too_large, ranks: 2 }.memory_bytes(&[space], 1), None);
    }

    #[test]
    fn any_node_fails_the_job() {
        let job = Job { machine: MACHINE, ranks: 1_000_000 };
        let each = job.machine.node_mtbf.as_secs_f64();
        near(job.process_failures(), 0.3 * 10_000.0 / each);
        near(job.node_losses(), 0.7 * 10_000.0 / each);
        near(job.outages(), 1.0 / (90.0 * DAY.as_secs_f64()));
    }
}
