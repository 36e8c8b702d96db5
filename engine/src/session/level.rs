//! A level: one space on one device, as this rank has it open. A session has a list of levels, the nearest first.
//!
//! Invariants: all ranks agree on the complete, the held and the kept revisions; new revisions go only to the current
//! ledger.

use super::{
    agreement::LevelFacts, attempt::Attempt, domain::Domain, failing::FailureStreak, flag::EqualOnAllRanks,
    holds::Holds, record::Record, shard_transfers::StoredShard, sights::gather_sights,
};
pub use crate::space::LevelKind;
use crate::{
    capture::Base,
    commit::{Allocation, Complete, Ledger, RevisionKey},
    config::Config,
    device::Device,
    error::{Error, Result},
    ground::lock,
    group::Group,
    mutant::{self, Mutant},
    place::{Shard, Site},
    restore::{DamagedShard, Found, Sight, find},
    space::{GoneBack, LayoutFile, Locks, Portion, short},
};
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// The most revisions in `lacks`.
const LACKS_MAX: usize = 100;

pub(super) struct Level {
    // Fields are dropped in this order: work under way first, the lock of the space last.
    pub(super) saving: Option<Attempt>,
    pub(super) files: Files,
    /// The newest revisions that are complete on all ranks, newest first.
    pub(super) complete: Vec<Complete>,
    /// Revisions held by other processes; kept in addition to `keep`.
    pub(super) holds: Holds,
    pub(super) feeding: Feeding,
    /// On a level with copies: the newest revision that is complete on the level and on each copy, and one that is
    /// complete on all of them together. Both stay everywhere until the next is complete on all. On any level: a
    /// revision with some shards here and the rest on other levels. It stays until a newer one is complete here.
    pub(super) joint: Vec<RevisionKey>,
    /// A revision with a shard that was read here in vain. Older ones may be damaged too, so newer ones share no blocks
    /// with them.
    pub(super) doubted: Option<RevisionKey>,
    pub(super) history: History,
    /// This rank's shard of the revision that was read last, if it came from another rank or level. Missing copies are
    /// made from it. The next checkpoint drops it.
    pub(super) received: Option<StoredShard>,
    /// This rank's shard, while it is saved here again.
    pub(super) mending: Option<Arc<Shard>>,
    pub(super) location: Location,
}

/// The layouts of a level, and their damage.
pub(super) struct Files {
    pub(super) current: Option<CurrentLayout>,
    /// The current layout, while ranks of lost nodes lack their portions in it; the same on all ranks. Those ranks have
    /// no current layout until their portions are made.
    pub(super) mends: Option<LayoutRepair>,
    /// The layout that this session made last.
    pub(super) made: Option<[u8; 16]>,
    /// Read-only portions: those of older layouts, and those of ranks that are not here.
    pub(super) others: Vec<Ledger>,
    pub(super) layouts: Vec<LayoutFile>,
    /// Damage: the parts that could not be read when the space was opened.
    pub(super) damage: Vec<String>,
    /// The owners of the damaged portions.
    pub(super) damaged_shards: Vec<Option<DamagedShard>>,
    /// Slots that are damaged, or were torn by a crash: the two look alike.
    pub(super) damaged_slots: Vec<String>,
    /// Blocks of the portions that this rank has left for want of room, by shard, until the larger layout is made.
    pub(super) outgrown: Vec<(usize, u64)>,
    /// New portions get their memory in the background.
    pub(super) makes_later: bool,
}

/// The revisions that other levels copy from a level, and those on their way to it.
pub(super) struct Feeding {
    /// The number of levels that copy from here. Revisions stay until they have copied them.
    pub(super) feeds: u32,
    /// Revisions that stay for these levels, with their layouts.
    pub(super) fed: Vec<(RevisionKey, [u8; 16])>,
    /// The revision on its way to this level, until all ranks know the outcome; the same on all of them.
    pub(super) under_feed: Option<RevisionKey>,
    /// On a copy: the revision that was sent last to this rank's holder, and its contents, if unchanged blocks are not
    /// sent again.
    pub(super) sent: Option<(RevisionKey, Arc<Base>)>,
}

/// The place of a level: its device, the ranks that write there, and the locks of its space.
pub(super) struct Location {
    pub(super) kind: LevelKind,
    pub(super) writers: Writers,
    pub(super) every: u32,
    /// The settings as they apply to this level.
    pub(super) config: Config,
    pub(super) domain: Domain,
    pub(super) device: Arc<dyn Device>,
    /// Revisions that rollbacks have left behind; they may still be here.
    pub(super) back: Arc<[GoneBack]>,
    /// Whether the file system has locks. Without them, a job that seems dead may still write to its portions.
    pub(super) locks_work: bool,
    pub(super) locks: Arc<Locks>,
}

/// The level's past: revisions that it lacks, and failures.
#[derive(Default)]
pub(super) struct History {
    /// How often this level was busy at its turn.
    pub(super) passed_over: u64,
    /// The newest revisions that it lacks for that reason, the newest last; the same on all ranks.
    pub(super) lacks: Vec<RevisionKey>,
    /// Consecutive failures to save here.
    pub(super) failing: FailureStreak,
    /// A revision was not saved here, and the program does not know yet. Set on all ranks together, with the failure of
    /// this rank.
    pub(super) unsaved: Option<Result<()>>,
    /// The last remark to the user about a revision that was not saved here. It is not repeated.
    pub(super) remarked: Option<String>,
    /// The last revision that this rank saved here.
    pub(super) last: Option<Record>,
}

/// The layout for new revisions.
#[derive(Clone)]
pub(super) struct CurrentLayout {
    pub(super) layout_id: [u8; 16],
    /// Ledgers of the portions that this rank writes, in the order of their shards.
    pub(super) ledgers: Vec<Arc<Mutex<Ledger>>>,
}

/// A layout that gets new portions for those on lost nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayoutRepair {
    pub(super) layout_number: u64,
    pub(super) layout_id: [u8; 16],
}

/// The rank that writes the portion of each shard on a level.
#[derive(Debug, Clone)]
pub(super) enum Writers {
    /// Each rank writes its own.
    Owners,
    /// The holder of each shard, in the order of the shards: the level is a copy.
    Holders(Vec<usize>),
    /// No rank: earlier jobs made these copies.
    Nobody,
}

impl Writers {
    pub(super) fn of(&self, shard: usize) -> usize {
        match self {
            Writers::Owners | Writers::Nobody => shard,
            Writers::Holders(holders) => holders.get(shard).copied().unwrap_or(shard),
        }
    }

    /// The shards that `rank` looks after, ascending: it writes their portions, or no rank does.
    pub(super) fn looked_after(&self, rank: usize) -> Vec<usize> {
        match self {
            Writers::Owners | Writers::Nobody => vec![rank],
            Writers::Holders(_) => self.shards_of(rank),
        }
    }

    /// The writing ranks of a job of `ranks` ranks.
    pub(super) fn writing(&self, ranks: usize) -> BTreeSet<usize> {
        match self {
            Writers::Owners => (0..ranks).collect(),
            Writers::Holders(holders) => holders.iter().copied().collect(),
            Writers::Nobody => BTreeSet::new(),
        }
    }

    /// The shards with portions that `rank` writes, ascending.
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
        self.location.config.keep as usize
    }

    /// The number of the revision under way; 0 if there is none.
    pub(super) fn under_way(&self) -> u64 {
        self.saving.as_ref().and_then(Attempt::key).map_or(0, |key| key.number)
    }

    /// The revisions on their way to this level.
    pub(super) fn keys_under_way(&self) -> impl Iterator<Item = RevisionKey> {
        self.saving.as_ref().and_then(Attempt::key).into_iter().chain(self.feeding.under_feed)
    }

    /// Whether the revision `number` goes to this level. `to_all`: it goes to all levels.
    pub(super) fn takes(&self, number: u64, to_all: bool) -> bool {
        !self.is_former()
            && (to_all || self.location.every > 0 && number.is_multiple_of(u64::from(self.location.every)))
    }

    /// Facts about the revision under way, without waiting for it.
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
        let under_way = EqualOnAllRanks::of(self.under_way());
        LevelFacts { under_way, failed: failed.into(), busy: busy.into(), ..LevelFacts::default() }
    }

    /// Makes `ledger` keep the revisions that stay here apart from the complete ones.
    pub(super) fn keep_in(&self, ledger: &mut Ledger) {
        let fed = self.feeding.fed.iter().map(|(key, _)| *key);
        ledger.set_staying(self.holds.keys(), fed.chain(self.joint.iter().copied()).collect());
    }

    /// The ranks that write the portions, in the order of the shards; empty unless the level is a copy.
    pub(super) fn holders(&self) -> Vec<u32> {
        match &self.location.writers {
            Writers::Owners | Writers::Nobody => Vec::new(),
            Writers::Holders(holders) => holders.iter().map(|holder| *holder as u32).collect(),
        }
    }

    /// Whether all ranks have portions to write to; the same on all ranks.
    pub(super) fn is_laid_out(&self) -> bool {
        self.files.current.is_some() && self.files.mends.is_none()
    }

    /// Whether a revision is complete here, on the level alone or with its copies.
    pub(super) fn has_any(&self) -> bool {
        !self.complete.is_empty() || !self.joint.is_empty()
    }

    /// The kind, domain and device of the level; `None` for a copy.
    pub(super) fn place(&self) -> Option<(LevelKind, &Domain, &dyn Device)> {
        (!self.is_copy()).then_some((self.location.kind, &self.location.domain, &*self.location.device))
    }

    /// Whether the revision is known to be complete here.
    pub(super) fn has(&self, key: RevisionKey) -> bool {
        self.complete.iter().any(|complete| complete.key == key)
    }

    /// Whether the revisions here may be damaged, and no newer one was saved since.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted.is_some() && self.complete.first().map(|complete| complete.key) <= self.doubted
    }

    /// Notes that the level was busy at its turn, and that `key` passed it over.
    pub(super) fn pass_over(&mut self, key: RevisionKey) {
        self.history.passed_over += 1;
        if self.history.lacks.len() == LACKS_MAX {
            self.history.lacks.remove(0);
        }
        self.history.lacks.push(key);
    }

    /// The revisions that passed the level over and have not come since.
    pub(super) fn lacking(&self) -> impl Iterator<Item = RevisionKey> {
        self.history.lacks.iter().copied().filter(|key| !self.has(*key))
    }

    /// Whether the level is a copy of the one before it.
    pub(super) fn is_copy(&self) -> bool {
        !matches!(self.location.writers, Writers::Owners)
    }

    /// Whether this is a copy that no rank writes any more.
    pub(super) fn is_former(&self) -> bool {
        matches!(self.location.writers, Writers::Nobody)
    }

    /// The newest revision here, whole or with the other copies.
    pub(super) fn newest(&self) -> Option<RevisionKey> {
        self.complete.iter().map(|complete| complete.key).chain(self.joint.iter().copied()).max()
    }

    /// The newest complete revisions once all ranks know that `key` is complete too. Every root must keep them.
    pub(super) fn complete_with(&self, key: Option<RevisionKey>, ranks: usize) -> Vec<Complete> {
        let layout = self.files.current.as_ref().map_or([0; 16], |current| current.layout_id);
        let new = key.map(|key| Complete { key, shards: ranks as u32, layout });
        new.into_iter().chain(self.complete.iter().copied()).take(self.keep()).collect()
    }

    /// The same if `key`, which was complete before, is complete here again, in any layouts.
    pub(super) fn complete_again(&self, key: RevisionKey, ranks: usize) -> Vec<Complete> {
        let mut all: Vec<Complete> = self.complete.iter().filter(|complete| complete.key != key).copied().collect();
        all.push(Complete { key, shards: ranks as u32, layout: [0; 16] });
        all.sort_by_key(|complete| Reverse(complete.key));
        all.truncate(self.keep());
        all
    }

    /// From now on the level keeps the `complete` revisions.
    pub(super) fn go_back_to(&mut self, complete: &[Complete]) {
        self.complete = complete.iter().copied().take(self.keep()).collect();
    }

    /// The site of the next revision's shard, with room `allocation`, in portion number `written` of this rank's
    /// portions. The complete revisions stay. `None` without a layout.
    pub(super) fn site(&self, written: usize, allocation: Allocation) -> Option<Site> {
        let retained = self.complete.iter().map(|complete| complete.key).collect();
        let site = |ledger: &Arc<Mutex<Ledger>>| {
            let site = Site::new(&*self.location.device, ledger.clone(), allocation, retained);
            if self.location.config.capture.is_incremental() && !self.is_doubted() {
                site.sharing(self.keep())
            } else {
                site
            }
        };
        let current = self.files.current.as_ref()?;
        let ledger = current.ledgers.get(written)?;
        debug_assert_eq!(lock(ledger).portion().layout_id(), current.layout_id, "a revision goes to another layout");
        Some(site(ledger))
    }

    /// The state of this level as this rank sees it.
    pub(super) fn sight(&self) -> Sight {
        let mut sight = Sight {
            damage: self.files.damage.clone(),
            damaged_shards: self.files.damaged_shards.clone(),
            layouts: layouts_of(&self.files.layouts),
            damaged_slots: self.files.damaged_slots.clone(),
            ..Sight::default()
        };
        self.each_ledger(|ledger| sight.add(ledger));
        sight.leave_out(&self.location.back);
        sight
    }

    /// The state of this level as all ranks together see it. Collective.
    pub(super) fn find(&self, group: &dyn Group) -> Result<Found> {
        find(
            &gather_sights(group, &self.sight(), &self.location.writers.looked_after(group.rank()))?,
            &self.location.device.path(),
        )
    }

    /// The shard of `rank`, which is this rank, in `candidate`: the one that it received, or else one that it sees here.
    pub(super) fn shard(&self, rank: u32, candidate: &Complete) -> Option<StoredShard> {
        let is_wanted = |(_, kept): &&StoredShard| kept.key() == candidate.key && kept.entry.shard == rank;
        self.received.as_ref().filter(is_wanted).cloned().or_else(|| self.stored(rank, candidate))
    }

    /// The portion of the shard in the layout, if this rank sees it.
    pub(super) fn portion_of(&self, layout: [u8; 16], shard: u32) -> Option<Portion> {
        let layouts = self.files.layouts.iter().filter(|file| file.header.layout_id == layout);
        layouts.flat_map(|file| file.portions()).find(|portion| portion.rank() == shard)
    }

    /// The shard of `rank` in `candidate`, if this rank sees it here.
    pub(super) fn stored(&self, rank: u32, candidate: &Complete) -> Option<StoredShard> {
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
        self.files.others.iter().for_each(&mut visit);
        self.current_ledgers().for_each(|ledger| visit(&lock(ledger)));
    }

    /// The layout for new revisions, if there is one.
    pub(super) fn layout_id(&self) -> Option<[u8; 16]> {
        self.files.current.as_ref().map(|current| current.layout_id)
    }

    /// The ledgers of the portions that this rank writes; none without a layout.
    pub(super) fn current_ledgers(&self) -> impl Iterator<Item = &Arc<Mutex<Ledger>>> {
        self.files.current.iter().flat_map(|current| &current.ledgers)
    }
}

/// The short ids of the layouts of `files`, with their numbers of ranks.
pub(super) fn layouts_of(files: &[LayoutFile]) -> Vec<(u32, u32)> {
    let all: BTreeSet<(u32, u32)> =
        files.iter().map(|file| (short(file.header.layout_id), file.header.ranks)).collect();
    all.into_iter().collect()
}

pub(super) fn lost_layout() -> Error {
    Error::Internal { what: "a layout was made and is not there".to_owned() }
}
