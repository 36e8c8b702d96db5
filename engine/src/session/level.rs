//! A level: one space on one device, as this rank has it open. A session has a list of them, of one today.
//!
//! What must hold: what is complete, held and kept is known alike on all ranks; revisions go to the current ledger alone.

use super::{Record, domain::Domain, holds::Holds, settle::Attempt};
use crate::{
    commit::{Allocation, Complete, Kept, Ledger, RevisionKey},
    config::Config,
    device::Device,
    error::{Error, Result},
    group::{Group, gather},
    mutant::{self, Mutant},
    place::{Site, lock},
    restore::{Found, Sight, find},
    space::{LayoutFile, Locks, Portion},
};
use std::sync::{Arc, Mutex};

pub(super) struct Level {
    // Fields end in this order: first what is under way, last the lock that keeps others out.
    pub(super) saving: Option<Attempt>,
    pub(super) current: Option<Current>,
    /// What was restored was shared out to other boxes: its shards need other portions than theirs.
    pub(super) has_other_boxes: bool,
    /// Portions that are only read: of older layouts, and of ranks that are not here.
    pub(super) others: Vec<Ledger>,
    pub(super) layouts: Vec<LayoutFile>,
    /// The newest revisions that all ranks know to be complete, newest first.
    pub(super) complete: Vec<Complete>,
    /// Revisions held by other processes, which stay in addition to `keep`.
    pub(super) holds: Holds,
    /// What could not be read when the space was opened.
    pub(super) damage: Vec<String>,
    /// Slots that a crash cut short, or that are damaged: they look alike.
    pub(super) torn: Vec<String>,
    pub(super) last: Option<Record>,
    /// As the settings go for this space.
    pub(super) config: Config,
    pub(super) domain: Domain,
    pub(super) device: Arc<dyn Device>,
    /// Without locks a job that was not seen to end may still write to what it had.
    pub(super) locks_work: bool,
    pub(super) _locks: Locks,
}

/// The layout that is written.
pub(super) struct Current {
    pub(super) layout_id: [u8; 16],
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

/// The levels of a session, the nearest first; never none.
pub(super) struct Levels(Vec<Level>);

impl Levels {
    pub(super) fn new(nearest: Level) -> Levels {
        Levels(vec![nearest])
    }

    /// The one that a checkpoint waits for, and that is read first.
    pub(super) fn nearest(&self) -> &Level {
        &self.0[0]
    }

    pub(super) fn nearest_mut(&mut self) -> &mut Level {
        &mut self.0[0]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Level> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Level> {
        self.0.iter_mut()
    }
}

impl Level {
    pub(super) fn keep(&self) -> usize {
        self.config.keep as usize
    }

    /// The number of the revision under way; 0: none is.
    pub(super) fn under_way(&self) -> u64 {
        self.saving.as_ref().and_then(Attempt::key).map_or(0, |key| key.number)
    }

    /// The newest complete revisions once all of `ranks` know that `key` is one: what every root must keep.
    pub(super) fn complete_with(&self, key: Option<RevisionKey>, ranks: usize) -> Vec<Complete> {
        let layout = self.current.as_ref().map_or([0; 16], |current| current.layout_id);
        let new = key.map(|key| Complete { key, shards: ranks as u32, layout });
        new.into_iter().chain(self.complete.iter().copied()).take(self.keep()).collect()
    }

    /// What was found, `complete`, is what goes on being kept.
    pub(super) fn go_back_to(&mut self, complete: &[Complete]) {
        self.complete = complete.iter().copied().take(self.keep()).collect();
    }

    /// The next revision's shard goes to `allocation`, beside what is complete; `None` without a layout.
    pub(super) fn site(&self, allocation: Allocation) -> Option<Site> {
        let retained = self.complete.iter().map(|complete| complete.key).collect();
        self.current.as_ref().map(|current| Site::new(&*self.device, current.ledger.clone(), allocation, retained))
    }

    /// All that this rank sees.
    pub(super) fn sight(&self) -> Sight {
        let mut sight = Sight { damage: self.damage.clone(), torn: self.torn.clone(), ..Sight::default() };
        self.each_ledger(|ledger| sight.add(ledger));
        sight
    }

    /// What all ranks see. Collective.
    pub(super) fn find(&self, group: &dyn Group) -> Result<Found> {
        find(&gather(group, &self.sight())?, &self.device.path())
    }

    /// What all ranks see, the newest revision first, if any can be read. Collective.
    pub(super) fn find_complete(&self, group: &dyn Group) -> Result<Found> {
        let found = self.find(group)?;
        if found.complete.is_empty() && !found.damage.is_empty() {
            return Err(Error::Damaged { what: found.damage });
        }
        Ok(found)
    }

    /// Where the shard of `rank` in `candidate` lies, if it is in sight.
    pub(super) fn shard(&self, rank: u32, candidate: &Complete) -> Option<(Portion, Arc<Kept>)> {
        let mut found = None;
        self.each_ledger(|ledger| {
            let mut shards = ledger.found().into_iter().filter(|kept| kept.entry.shard == rank);
            let ours = if mutant::is(Mutant::MinimumInsteadOfIntersection) {
                shards.filter(|kept| kept.key() <= candidate.key).max_by_key(|kept| kept.key())
            } else {
                shards.find(|kept| kept.key() == candidate.key)
            };
            found = found.take().or(ours.map(|kept| (ledger.portion().clone(), kept)));
        });
        found
    }

    pub(super) fn each_ledger(&self, mut visit: impl FnMut(&Ledger)) {
        self.others.iter().for_each(&mut visit);
        if let Some(current) = &self.current {
            visit(&lock(&current.ledger));
        }
    }
}
