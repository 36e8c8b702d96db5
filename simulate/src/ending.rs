//! The end of a job: by a loss after a step, by kills, or in order.

use crate::{
    job::{Job, Rank},
    lock::locked,
    plan::{Loss, PlannedFault},
};
use std::{collections::BTreeSet, sync::atomic::Ordering};

impl Job {
    /// Loses nodes at the same time, each with its disk or without it. The nodes of one rack have one copy together.
    pub fn lose(&self, nodes: &[(usize, bool)]) {
        let mut lost = BTreeSet::new();
        for (node, with_disk) in nodes {
            self.cluster.lose_node(*node, *with_disk);
            if lost.insert(self.setting.domain(*node)) {
                locked(&self.judge).lost(*with_disk);
            }
        }
    }

    /// Kills all processes of the job that are left.
    pub fn kill_all(&self) {
        let alive: Vec<_> =
            locked(&self.ranks).iter().filter(|rank| !rank.is_gone()).map(|rank| rank.process).collect();
        alive.into_iter().for_each(|process| self.cluster.kill(process));
    }

    /// Ends the job if the plan says so: rank `of`, which began on `node`, has returned from its step of index `at`. Does
    /// not return then.
    pub fn ends_after(&self, of: usize, node: usize, at: usize) {
        let loss = self.round.faults.iter().find_map(|fault| match *fault {
            PlannedFault::EndsAfter { rank, step, loss } if (rank, step) == (of, at) => Some(loss),
            _ => None,
        });
        let Some(loss) = loss else { return };
        let all = 0..self.setting.nodes;
        let domain = self.setting.domain(node);
        let lost: Vec<(usize, bool)> = match loss {
            Loss::Nothing => Vec::new(),
            Loss::Domain { with_disk } => {
                all.filter(|node| self.setting.domain(*node) == domain).map(|node| (node, with_disk)).collect()
            }
            Loss::All => all.map(|node| (node, false)).collect(),
        };
        self.kill_all();
        self.lose(&lost);
        self.cluster.stop_if_killed();
    }

    /// Rank `of` begins to recover. Lets it die in one of its next operations if the plan says so.
    pub fn may_die_in_recovery(&self, of: usize) {
        for fault in &self.round.faults {
            if let PlannedFault::DiesInRecovery { rank, operation } = *fault
                && rank == of
            {
                self.cluster.dies_in(self.cluster.this_process(), operation);
            }
        }
    }

    /// Whether all ranks have saved, and have closed in order.
    pub fn has_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) == self.round.seats.len()
    }

    /// Whether all processes of the job are gone. Does not lock the cluster, so conditions of waits may ask.
    pub fn is_over(&self) -> bool {
        locked(&self.ranks).iter().all(Rank::is_gone)
    }
}
