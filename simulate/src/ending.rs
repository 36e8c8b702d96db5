//! The end of a job by a loss, and the deaths that a rank meets at a step of its own.

use crate::{
    job::{Job, Rank},
    lock::locked,
    plan::{Loss, PlannedFault},
};
use std::{collections::BTreeSet, sync::atomic::Ordering};

impl Job {
    /// Nodes are lost at the same time, each with its disk or without. Those of a rack held one copy together.
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

    /// The rank, which began on `node`, has returned from the step of this index. Does not return if the job ends here.
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

    /// A rank begins to recover. It may die in that.
    pub fn may_die_in_recovery(&self, of: usize) {
        for fault in &self.round.faults {
            if let PlannedFault::DiesInRecovery { rank, operation } = *fault
                && rank == of
            {
                self.cluster.dies_in(self.cluster.this_process(), operation);
            }
        }
    }

    /// Whether all ranks have closed in order.
    pub fn has_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) == self.round.seats.len()
    }

    /// Whether any of its processes lives. Conditions may ask.
    pub fn is_over(&self) -> bool {
        locked(&self.ranks).iter().all(Rank::is_gone)
    }
}
