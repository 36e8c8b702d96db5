//! A level: one space on one device, as this rank has it open. A session has a list of them, the nearest first.
//!
//! What must hold: all ranks know alike which revisions are complete, held and kept; new revisions go to the current
//! ledger alone.

use super::{
    agreement::LevelFacts,
    attempt::Attempt,
    brought::{Beside, ShardParts, ToldShards, WantedShards},
    domain::Domain,
    failing::FailureStreak,
    flag::Alike,
    holds::Holds,
    record::Record,
};
pub use crate::space::LevelKind;
use crate::{
    capture::Base,
    commit::{Allocation, Complete, Kept, Ledger, RevisionKey},
    config::Config,
    device::Device,
    error::{Error, Result},
    ground::lock,
    group::{Group, gather},
    mutant::{self, Mutant},
    place::{Shard, Site},
    restore::{Found, Hurt, Sight, find},
    space::{GoneBack, LayoutFile, Locks, Portion, short},
};
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// Of the revisions that passed a level over, so many are known.
const LACKS_MAX: usize = 100;

pub(super) struct Level {
    // Fields are dropped in this order: first what is under way, last the lock that keeps others out.
    pub(super) saving: Option<Attempt>,
    pub(super) current: Option<Current>,
    /// The current layout, while ranks whose nodes were lost lack their portions there: the same on all ranks. Those have no
    /// current layout until theirs are made.
    pub(super) mends: Option<Mends>,
    /// The layout that this session made last.
    pub(super) made: Option<[u8; 16]>,
    /// Portions that are only read: those of older layouts, and those of ranks that are not here.
    pub(super) others: Vec<Ledger>,
    pub(super) layouts: Vec<LayoutFile>,
    /// The newest revisions that all ranks know to be complete, newest first.
    pub(super) complete: Vec<Complete>,
    /// Revisions held by other processes, which stay in addition to `keep`.
    pub(super) holds: Holds,
    /// Damage: what could not be read when the space was opened.
    pub(super) damage: Vec<String>,
    /// Whose the damaged portions are.
    pub(super) hurt: Vec<Option<Hurt>>,
    /// Slots that a crash cut short, or that are damaged: they look alike.
    pub(super) torn: Vec<String>,
    pub(super) last: Option<Record>,
    pub(super) kind: LevelKind,
    pub(super) writers: Writers,
    pub(super) every: u32,
    /// Blocks of the portions that this rank has left for want of room, by shard, until the larger layout is made.
    pub(super) outgrown: Vec<(usize, u64)>,
    /// The memory of portions that are made now is given to them in the background.
    pub(super) makes_later: bool,
    /// So many others are fed from here: what they have not copied yet stays.
    pub(super) feeds: u32,
    /// Revisions that stay for that, and the layouts that they lie in.
    pub(super) fed: Vec<(RevisionKey, [u8; 16])>,
    /// What this level is fed with, until all ranks know what became of it: the same on all of them.
    pub(super) under_feed: Option<RevisionKey>,
    /// How often it was this level's turn while it was busy.
    pub(super) passed_over: u64,
    /// The revisions that it lacks because of that, the newest last: the same on all ranks. Of many, the newest alone.
    pub(super) lacks: Vec<RevisionKey>,
    /// Revisions that were not saved here, in a row.
    pub(super) failing: FailureStreak,
    /// A revision was not saved here, and the program was not told. Set on all ranks alike, with what failed on this
    /// one.
    pub(super) unsaved: Option<Result<()>>,
    /// The last remark to the user that a revision was not saved here, which is not made twice.
    pub(super) remarked: Option<String>,
    /// The settings as they apply to this level.
    pub(super) config: Config,
    pub(super) domain: Domain,
    pub(super) device: Arc<dyn Device>,
    /// What rollbacks have left out, and may lie here all the same.
    pub(super) back: Arc<[GoneBack]>,
    /// Of a level with copies: the newest revision that is complete on this level and on each of its copies, and one that is
    /// complete on all of them together, which stay on each of them until the next is complete on all. Of any level: one
    /// of which it has a part, and other levels the rest, which stays until a newer one is complete here.
    pub(super) joint: Vec<RevisionKey>,
    /// A revision of which a shard was read here in vain: what is older may be as damaged, so that nothing newer shares
    /// blocks with it.
    pub(super) doubted: Option<RevisionKey>,
    /// Of a copy: the revision that this rank's holder was sent last, and what that has, if blocks of it are not to be sent
    /// once more.
    pub(super) sent: Option<(RevisionKey, Arc<Base>)>,
    /// Shards that came from copies or other ranks, for the restore under way.
    pub(super) fetched: Vec<(Portion, Arc<Kept>)>,
    /// The shards of which this rank tells the others, where they are looked for on a level and its copies.
    pub(super) told_of: Option<Vec<(Portion, Arc<Kept>)>>,
    /// Those of which other ranks tell, and whose portions this rank sees as well.
    pub(super) in_sight: Vec<(u32, Portion)>,
    /// Those that this rank has itself as well, on one of the levels.
    pub(super) beside: Vec<Beside>,
    /// Parts of shards that came from other ranks.
    pub(super) parts: Vec<ShardParts>,
    /// What this rank has to read of shards, and did not get so far.
    pub(super) wanted: Mutex<WantedShards>,
    /// What all have told of the shards, while what is wanted comes.
    pub(super) told: Mutex<Option<ToldShards>>,
    /// That shard on its way to this level again.
    pub(super) mending: Option<Arc<Shard>>,
    /// Whether the file system has locks. Without them a job that was not seen to end may still write to its portions.
    pub(super) locks_work: bool,
    pub(super) locks: Arc<Locks>,
}

/// The layout that new revisions go to.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) layout_id: [u8; 16],
    /// Of the portions that this rank writes, in the order of their shards.
    pub(super) ledgers: Vec<Arc<Mutex<Ledger>>>,
}

/// A layout that is to get the portions that went with their nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mends {
    pub(super) layout_number: u64,
    pub(super) layout_id: [u8; 16],
}

/// Which rank writes the portion of which shard on a level.
#[derive(Debug, Clone)]
pub(super) enum Writers {
    /// Each rank its own.
    Owners,
    /// The holder of each, in the order of the shards: the level has copies.
    Holders(Vec<usize>),
    /// None: these are copies that earlier jobs have made.
    Nobody,
}

impl Writers {
    pub(super) fn of(&self, shard: usize) -> usize {
        match self {
            Writers::Owners | Writers::Nobody => shard,
            Writers::Holders(holders) => holders.get(shard).copied().unwrap_or(shard),
        }
    }

    /// The shards whose portions `rank` writes, ascending.
    pub(super) fn shards_of(&self, rank: usize) -> Vec<usize> {
        match self {
            Writers::Owners => vec![rank],
            Writers::Nobody => Vec::new(),
            Writers::Holders(holders) => (0..holders.len()).filter(|shard| holders[*shard] == rank).collect(),
        }
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

    /// The revisions that are on their way to this level.
    pub(super) fn keys_under_way(&self) -> impl Iterator<Item = RevisionKey> {
        self.saving.as_ref().and_then(Attempt::key).into_iter().chain(self.under_feed)
    }

    /// Whether the revision `number` goes to this level; `to_all`: it goes to all that there are.
    pub(super) fn takes(&self, number: u64, to_all: bool) -> bool {
        !self.is_former() && (to_all || self.every > 0 && number.is_multiple_of(u64::from(self.every)))
    }

    /// What there is to tell of the revision under way, without waiting for it.
    pub(super) fn facts(&self) -> LevelFacts {
        let (failed, busy) = match &self.saving {
            None => (false, false),
            Some(Attempt::Failed(_)) => (true, false),
            Some(Attempt::Copying(copying)) => {
                let ended = copying.poll();
                (matches!(ended, Some(Err(_))), ended.is_none())
            }
            Some(Attempt::Running(shard)) => {
                let ended = shard.poll();
                (matches!(ended, Some(Err(_))), ended.is_none())
            }
        };
        let under_way = Alike::of(self.under_way());
        LevelFacts { under_way, failed: failed.into(), busy: busy.into(), ..LevelFacts::default() }
    }

    /// Has `ledger` keep the revisions that stay here besides the complete ones.
    pub(super) fn keep_in(&self, ledger: &mut Ledger) {
        let fed = self.fed.iter().map(|(key, _)| *key);
        ledger.set_staying(self.holds.keys(), fed.chain(self.joint.iter().copied()).collect());
    }

    /// Who writes the portion of each shard.
    pub(super) fn holders(&self) -> Vec<u32> {
        match &self.writers {
            Writers::Owners | Writers::Nobody => Vec::new(),
            Writers::Holders(holders) => holders.iter().map(|holder| *holder as u32).collect(),
        }
    }

    /// Whether all ranks have portions to write to: the same on all of them.
    pub(super) fn is_laid_out(&self) -> bool {
        self.current.is_some() && self.mends.is_none()
    }

    /// Whether there is a revision here that is complete, with the copies of the level or without.
    pub(super) fn has_any(&self) -> bool {
        !self.complete.is_empty() || !self.joint.is_empty()
    }

    /// Where the level lies; `None` of a copy.
    pub(super) fn place(&self) -> Option<(LevelKind, &Domain, &dyn Device)> {
        (!self.is_copy()).then_some((self.kind, &self.domain, &*self.device))
    }

    /// Whether the revision is known to be complete here.
    pub(super) fn has(&self, key: RevisionKey) -> bool {
        self.complete.iter().any(|complete| complete.key == key)
    }

    /// Whether what is here is damaged, as far as is known, and nothing newer was saved since.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted.is_some() && self.complete.first().map(|complete| complete.key) <= self.doubted
    }

    /// The level is busy at its turn: `key` passes it over.
    pub(super) fn pass_over(&mut self, key: RevisionKey) {
        self.passed_over += 1;
        if self.lacks.len() == LACKS_MAX {
            self.lacks.remove(0);
        }
        self.lacks.push(key);
    }

    /// The revisions that passed it over and have not come since.
    pub(super) fn lacking(&self) -> impl Iterator<Item = RevisionKey> {
        self.lacks.iter().copied().filter(|key| !self.has(*key))
    }

    /// Whether the level is a copy of the one before it.
    pub(super) fn is_copy(&self) -> bool {
        !matches!(self.writers, Writers::Owners)
    }

    /// Whether these are copies that nobody makes any more.
    pub(super) fn is_former(&self) -> bool {
        matches!(self.writers, Writers::Nobody)
    }

    /// The newest revision of which something is known to lie here, whole or with the other copies.
    pub(super) fn newest(&self) -> Option<RevisionKey> {
        self.complete.iter().map(|complete| complete.key).chain(self.joint.iter().copied()).max()
    }

    /// The newest complete revisions once all ranks know that `key` is complete too: those that every root must keep.
    pub(super) fn complete_with(&self, key: Option<RevisionKey>, ranks: usize) -> Vec<Complete> {
        let layout = self.current.as_ref().map_or([0; 16], |current| current.layout_id);
        let new = key.map(|key| Complete { key, shards: ranks as u32, layout });
        new.into_iter().chain(self.complete.iter().copied()).take(self.keep()).collect()
    }

    /// The same once `key`, which was complete before, is complete here again, in whichever layouts.
    pub(super) fn complete_again(&self, key: RevisionKey, ranks: usize) -> Vec<Complete> {
        let mut all: Vec<Complete> = self.complete.iter().filter(|complete| complete.key != key).copied().collect();
        all.push(Complete { key, shards: ranks as u32, layout: [0; 16] });
        all.sort_by_key(|complete| Reverse(complete.key));
        all.truncate(self.keep());
        all
    }

    /// From now on the revisions that were found, `complete`, are kept.
    pub(super) fn go_back_to(&mut self, complete: &[Complete]) {
        self.complete = complete.iter().copied().take(self.keep()).collect();
    }

    /// Where the next revision's shard goes in the portion number `written` of those that this rank writes: to
    /// `allocation`, beside the complete revisions; `None` without a layout.
    pub(super) fn site(&self, written: usize, allocation: Allocation) -> Option<Site> {
        let retained = self.complete.iter().map(|complete| complete.key).collect();
        let site = |ledger: &Arc<Mutex<Ledger>>| {
            let site = Site::new(&*self.device, ledger.clone(), allocation, retained);
            if self.config.capture.is_incremental() && !self.is_doubted() { site.sharing(self.keep()) } else { site }
        };
        self.current.as_ref()?.ledgers.get(written).map(site)
    }

    /// All that this rank sees of this level.
    pub(super) fn sight(&self) -> Sight {
        let mut sight = Sight {
            damage: self.damage.clone(),
            hurt: self.hurt.clone(),
            layouts: layouts_of(&self.layouts),
            torn: self.torn.clone(),
            ..Sight::default()
        };
        self.each_ledger(|ledger| sight.add(ledger));
        sight.leave_out(&self.back);
        sight
    }

    /// All that the ranks together see of this level. Collective.
    pub(super) fn find(&self, group: &dyn Group) -> Result<Found> {
        find(&gather(group, &self.sight())?, &self.device.path())
    }

    /// Where the shard of `rank` in `candidate` is read from: what another rank sent, if it did, or what is in sight here.
    pub(super) fn shard(&self, rank: u32, candidate: &Complete) -> Option<(Portion, Arc<Kept>)> {
        let is_wanted = |kept: &Arc<Kept>| kept.key() == candidate.key && kept.entry.shard == rank;
        let fetched = self.fetched.iter().find(|(_, kept)| is_wanted(kept)).cloned();
        fetched.or_else(|| self.stored(rank, candidate))
    }

    /// Forgets what was brought here for a restore.
    pub(super) fn forget_fetched(&mut self) {
        (self.fetched, self.told_of, self.in_sight) = (Vec::new(), None, Vec::new());
        (self.beside, self.parts) = (Vec::new(), Vec::new());
        (self.wanted, self.told) = (Mutex::default(), Mutex::default());
    }

    /// The portion of the shard in the layout, if this rank sees that.
    pub(super) fn portion_of(&self, layout: [u8; 16], shard: u32) -> Option<Portion> {
        let layouts = self.layouts.iter().filter(|file| file.header.layout_id == layout);
        layouts.flat_map(|file| file.portions()).find(|portion| portion.rank() == shard)
    }

    /// Where the shard of `rank` in `candidate` lies, if it is in sight.
    pub(super) fn stored(&self, rank: u32, candidate: &Complete) -> Option<(Portion, Arc<Kept>)> {
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
        self.current_ledgers().for_each(|ledger| visit(&lock(ledger)));
    }

    /// The layout that new revisions go to, if there is one.
    pub(super) fn layout_id(&self) -> Option<[u8; 16]> {
        self.current.as_ref().map(|current| current.layout_id)
    }

    /// The ledgers of the portions that this rank writes; none without a layout.
    pub(super) fn current_ledgers(&self) -> impl Iterator<Item = &Arc<Mutex<Ledger>>> {
        self.current.iter().flat_map(|current| &current.ledgers)
    }
}

/// The short ids of the layouts of `files`, and the numbers of their ranks.
pub(super) fn layouts_of(files: &[LayoutFile]) -> Vec<(u32, u32)> {
    let all: BTreeSet<(u32, u32)> =
        files.iter().map(|file| (short(file.header.layout_id), file.header.ranks)).collect();
    all.into_iter().collect()
}

pub(super) fn lost_layout() -> Error {
    Error::Internal { what: "a layout was made and is not there".to_owned() }
}
