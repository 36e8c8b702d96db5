//! The right to write to a space: an opening takes its locks, and they pass from one epoch of a job to the next.
//!
//! Invariant: from the opening to the closing, some rank of the job holds a lock of each space. No other job can take
//! one while failed ranks are left out or replaced.

use super::domain::Domain;
use crate::{
    device::Device,
    error::Result,
    group::{Group, agree, gather_unequal, host_name},
    space::{Locks, note_opener, with_opener},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Time for the ranks of a killed job to disappear.
const GRACE: Duration = Duration::from_secs(2);

/// The locks that this rank has from before a failure, and those that it takes afterwards. If an opening fails, the
/// next one uses them.
#[derive(Debug, Default, Clone)]
pub(super) struct KeptLocks(Vec<Arc<Locks>>);

impl KeptLocks {
    pub(super) fn new(locks: impl Iterator<Item = Arc<Locks>>) -> KeptLocks {
        KeptLocks(locks.collect())
    }

    pub(super) fn has_any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn into_all(self) -> Vec<Arc<Locks>> {
        self.0
    }

    /// The locks of the space on `device`: those that are kept, or new ones.
    fn of(&mut self, device: &dyn Device) -> Result<Arc<Locks>> {
        let directory = device.directory();
        if let Some(locks) = self.0.iter().find(|locks| locks.are_of(directory)) {
            return Ok(locks.clone());
        }
        let locks = Arc::new(Locks::open(device)?);
        self.0.push(locks.clone());
        Ok(locks)
    }
}

/// Locks this rank's byte. Also returns whether the file system has locks at all. `kept`: the job goes on after a
/// failure, and ranks from before it have locks already; all ranks know this. Collective.
pub(super) fn take(
    group: &dyn Group,
    device: &dyn Device,
    domain: &Domain,
    kept: Option<&mut KeptLocks>,
) -> Result<(Arc<Locks>, bool)> {
    let (rank, goes_on) = (group.rank() as u64, kept.is_some());
    let opened = kept.map_or_else(|| Locks::open(device).map(Arc::new), |kept| kept.of(device));
    let locks = agree(group, opened)?;
    let held = if goes_on { held_by_all(group, &locks.held())? } else { Vec::new() };
    let ours = held.iter().enumerate().filter(|(rank, _)| domain.contains(*rank)).flat_map(|(_, held)| held);
    let ours: BTreeSet<u64> = ours.copied().collect();
    let others = if group.rank() == domain.leader() { locks.wait_for_others(GRACE, &ours) } else { Ok(()) };
    agree(group, others.map_err(|error| with_opener(error, device)))?;
    let is_own = |(rank, held): (usize, &Vec<u64>)| held.is_empty() || *held == [rank as u64];
    let is_moved = !held.iter().enumerate().all(is_own);
    if is_moved {
        // Before a rank takes the number of another, the other must release it.
        agree(group, locks.step_aside(rank))?;
    }
    let locked = agree(group, locks.lock_rank(rank).map_err(|error| with_opener(error, device)))?;
    if rank == 0 {
        note_opener(device, host_name());
    }
    if is_moved {
        agree(group, locks.keep_only(rank))?;
    }
    let mut unsupported = [u64::from(!locked)];
    group.all_max(&mut unsupported)?;
    Ok((locks, unsupported[0] == 0))
}

/// The numbers of the locks that each rank has. Collective.
fn held_by_all(group: &dyn Group, mine: &[u64]) -> Result<Vec<Vec<u64>>> {
    // Most ranks have the lock of their own number. Counted from there, they have the same.
    let rank = group.rank() as u64;
    let beyond = gather_unequal(group, &mine.iter().map(|lock| lock.wrapping_sub(rank)).collect::<Vec<u64>>())?;
    let of = |rank: usize| {
        beyond.get(rank).unwrap_or(&beyond[0]).iter().map(|lock| lock.wrapping_add(rank as u64)).collect()
    };
    Ok((0..group.size()).map(of).collect())
}
