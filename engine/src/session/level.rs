//! A level: one space on one device, as this rank has it open. A session has a list of them, the nearest first.
//!
//! What must hold: all ranks know alike which revisions are complete, held and kept; new revisions go to the current
//! ledger alone.

use super::{
    agreement::LevelFacts,
    domain::Domain,
    flag::Alike,
    held::Holds,
    places::Note,
    record::Record,
    settle::Attempt,
    telling::{Failing, Telling},
};
pub use crate::space::LevelKind;
use crate::{
    commit::{Allocation, Complete, Kept, Ledger, RevisionKey},
    config::Config,
    device::Device,
    error::Result,
    ground::lock,
    group::{Group, gather},
    mutant::{self, Mutant},
    place::Site,
    restore::{Found, Sight, find},
    space::{LayoutFile, Locks, Portion},
};
use std::sync::{Arc, Mutex};

/// A level that a session is to have.
#[derive(Debug, Clone)]
pub struct LevelPlan {
    pub kind: LevelKind,
    pub device: Arc<dyn Device>,
    /// Revisions whose number is a multiple of this go to the level; 0: none does.
    pub every: u32,
    /// How many complete revisions are kept on the level, at least 1.
    pub keep: u32,
}

pub(super) struct Level {
    // Fields are dropped in this order: first what is under way, last the lock that keeps others out.
    pub(super) saving: Option<Attempt>,
    pub(super) current: Option<Current>,
    /// The last restore shared a revision out to other boxes, so that new shards may need portions of other sizes.
    pub(super) has_other_boxes: bool,
    /// Portions that are only read: those of older layouts, and those of ranks that are not here.
    pub(super) others: Vec<Ledger>,
    pub(super) layouts: Vec<LayoutFile>,
    /// The newest revisions that all ranks know to be complete, newest first.
    pub(super) complete: Vec<Complete>,
    /// Revisions held by other processes, which stay in addition to `keep`.
    pub(super) holds: Holds,
    /// Damage: what could not be read when the space was opened.
    pub(super) damage: Vec<String>,
    /// Slots that a crash cut short, or that are damaged: they look alike.
    pub(super) torn: Vec<String>,
    pub(super) last: Option<Record>,
    pub(super) kind: LevelKind,
    pub(super) every: u32,
    /// So many others are fed from here: what they have not copied yet stays.
    pub(super) feeds: u32,
    /// Revisions that stay for that, and the layouts that they lie in.
    pub(super) fed: Vec<(RevisionKey, [u8; 16])>,
    /// What this level is fed with, until all ranks know what became of it: the same on all of them.
    pub(super) under_feed: Option<RevisionKey>,
    /// How often it was this level's turn while it was busy.
    pub(super) passed_over: u64,
    /// Revisions that were not saved here, in a row.
    pub(super) failing: Failing,
    /// A revision was not saved here, and the program was not told. Set on all ranks alike, with what failed on this
    /// one.
    pub(super) unsaved: Option<Result<()>>,
    /// The last remark to the user that a revision was not saved here, which is not made twice.
    pub(super) remarked: Option<String>,
    /// The settings as they apply to this level.
    pub(super) config: Config,
    pub(super) domain: Domain,
    pub(super) device: Arc<dyn Device>,
    /// Whether the file system has locks. Without them a job that was not seen to end may still write to its portions.
    pub(super) locks_work: bool,
    pub(super) _locks: Locks,
}

/// The layout that new revisions go to.
pub(super) struct Current {
    pub(super) layout_id: [u8; 16],
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

impl Current {
    pub(super) fn same(&self) -> Current {
        Current { layout_id: self.layout_id, ledger: self.ledger.clone() }
    }
}

/// The levels of a session, the nearest first; never none.
pub(super) struct Levels {
    // Fields are dropped in this order: what is told is written before the locks are let go.
    /// On rank 0, where the farthest has a note.
    pub(super) telling: Option<Telling>,
    levels: Vec<Level>,
    /// What the farthest says of the others, where that is a directory.
    pub(super) note: Option<Note>,
}

impl Levels {
    /// Of at least one.
    pub(super) fn new(levels: Vec<Level>, note: Option<Note>) -> Levels {
        assert!(!levels.is_empty(), "a session without a level");
        Levels { telling: None, levels, note }
    }

    /// The level that a checkpoint waits for, and that is read first.
    pub(super) fn nearest(&self) -> &Level {
        &self.levels[0]
    }

    pub(super) fn nearest_mut(&mut self) -> &mut Level {
        &mut self.levels[0]
    }

    pub(super) fn at(&self, index: usize) -> &Level {
        &self.levels[index]
    }

    /// The level that outlives the others; the session was opened by its path.
    pub(super) fn farthest(&self) -> &Level {
        &self.levels[self.levels.len() - 1]
    }

    /// Who tells of the levels, with them all.
    pub(super) fn telling(&mut self) -> (Option<&mut Telling>, &[Level]) {
        (self.telling.as_mut(), &self.levels)
    }

    /// The nearest level, and the farther ones.
    pub(super) fn split(&mut self) -> (&mut Level, &mut [Level]) {
        let (nearest, farther) = self.levels.split_at_mut(1);
        (&mut nearest[0], farther)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Level> {
        self.levels.iter_mut()
    }
}

impl Level {
    pub(super) fn keep(&self) -> usize {
        self.config.keep as usize
    }

    /// The number of the revision under way; 0 if there is none.
    pub(super) fn under_way(&self) -> u64 {
        self.saving.as_ref().and_then(Attempt::key).map_or(0, |key| key.number)
    }

    /// Whether the revision `number` goes to this level.
    pub(super) fn takes(&self, number: u64) -> bool {
        self.every > 0 && number.is_multiple_of(u64::from(self.every))
    }

    /// What there is to tell of the revision under way, without waiting for it.
    pub(super) fn facts(&self) -> LevelFacts {
        let (failed, busy) = match &self.saving {
            None => (false, false),
            Some(Attempt::Failed(_)) => (true, false),
            Some(Attempt::Running(shard)) => {
                let ended = shard.poll();
                (matches!(ended, Some(Err(_))), ended.is_none())
            }
        };
        let under_way = Alike::of(self.under_way());
        LevelFacts { under_way, failed: failed.into(), busy: busy.into(), ..LevelFacts::default() }
    }

    /// The revisions that stay here besides the complete ones.
    pub(super) fn staying(&self) -> Vec<RevisionKey> {
        self.holds.keys().into_iter().chain(self.fed.iter().map(|(key, _)| *key)).collect()
    }

    /// The newest complete revisions once all ranks know that `key` is complete too: those that every root must keep.
    pub(super) fn complete_with(&self, key: Option<RevisionKey>, ranks: usize) -> Vec<Complete> {
        let layout = self.current.as_ref().map_or([0; 16], |current| current.layout_id);
        let new = key.map(|key| Complete { key, shards: ranks as u32, layout });
        new.into_iter().chain(self.complete.iter().copied()).take(self.keep()).collect()
    }

    /// From now on the revisions that were found, `complete`, are kept.
    pub(super) fn go_back_to(&mut self, complete: &[Complete]) {
        self.complete = complete.iter().copied().take(self.keep()).collect();
    }

    /// Where the next revision's shard goes: to `allocation`, beside the complete revisions; `None` without a layout.
    pub(super) fn site(&self, allocation: Allocation) -> Option<Site> {
        let retained = self.complete.iter().map(|complete| complete.key).collect();
        self.current.as_ref().map(|current| Site::new(&*self.device, current.ledger.clone(), allocation, retained))
    }

    /// All that this rank sees of this level.
    pub(super) fn sight(&self) -> Sight {
        let mut sight = Sight { damage: self.damage.clone(), torn: self.torn.clone(), ..Sight::default() };
        self.each_ledger(|ledger| sight.add(ledger));
        sight
    }

    /// All that the ranks together see of this level. Collective.
    pub(super) fn find(&self, group: &dyn Group) -> Result<Found> {
        find(&gather(group, &self.sight())?, &self.device.path())
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
